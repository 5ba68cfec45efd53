#!/bin/sh
# Stands before rustc. Gives each crate an identity and source paths that do
# not depend on folders: cargo derives both from absolute paths, and they end
# up in symbol names and in BTF's line information.
rustc=$1
shift
[ -n "$CARGO_PKG_NAME" ] || exec "$rustc" "$@"
crate=$CARGO_PKG_NAME-$CARGO_PKG_VERSION
for arg do
    shift
    case $arg in
        metadata=*) arg=metadata=$crate ;;
    esac
    set -- "$@" "$arg"
done
[ -z "$OUT_DIR" ] || set -- "$@" --remap-path-prefix "$OUT_DIR=/$crate/out"
# Of several that match, rustc takes the last.
exec "$rustc" "$@" \
    --remap-path-prefix "$(pwd -P)=/$crate" \
    --remap-path-prefix "$CARGO_MANIFEST_DIR=/$crate"
