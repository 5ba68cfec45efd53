//! The arrows between the modules of a crate: no two import each other in a loop.
//!
//! A name that the file of a folder re-exports counts as one of the folder. What stands in the arguments of macros
//! is not read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{Attribute, ItemFn, ItemImpl, ItemMod, ItemUse, UseTree, visit::Visit};

/// The path of a module in its crate, as `["hang", "words"]`.
type Module = Vec<String>;

/// Each module with the modules that it names.
type Arrows = BTreeMap<Module, BTreeSet<Module>>;

/// The paths that a file names beginning with `crate` or `super`, except in tests.
#[derive(Default)]
struct Named(Vec<Vec<String>>);

impl Named {
    fn take(&mut self, path: Vec<String>) {
        if path
            .first()
            .is_some_and(|first| first == "crate" || first == "super")
        {
            self.0.push(path);
        }
    }

    fn take_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.take_tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Name(name) => self.take(with(name.ident.to_string())),
            UseTree::Rename(rename) => self.take(with(rename.ident.to_string())),
            UseTree::Glob(_) => self.take(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.take_tree(tree, before);
                }
            }
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
    })
}

impl<'ast> Visit<'ast> for Named {
    // Other modules have files of their own.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.take_tree(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter();
        self.take(names.map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

/// Reads the modules below a folder, with the paths that each names. Tests and their samples are left out.
fn read(folder: &Path, module: &Module, found: &mut BTreeMap<Module, Named>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if ["tests", "samples"].contains(&name.as_str()) || name.ends_with("_tests") {
            continue;
        }
        let mut inner = module.clone();
        inner.push(name.clone());
        if path.is_dir() {
            read(&path, &inner, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let is_of_folder = ["mod", "lib", "main"].contains(&name.as_str());
            let of = if is_of_folder { module.clone() } else { inner };
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            found.entry(of).or_default().visit_file(&file);
        }
    }
}

/// The module that a path names, from within a module: as far as its names are modules.
fn named(path: &[String], within: &Module, all: &BTreeSet<Module>) -> Module {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let (mut module, rest) = match ups {
        0 => (Module::new(), &path[1..]),
        _ => (
            within[..within.len().saturating_sub(ups)].to_vec(),
            &path[ups..],
        ),
    };
    for name in rest {
        module.push(name.clone());
        if !all.contains(&module) {
            module.pop();
            break;
        }
    }
    module
}

/// The arrows between the modules of the crate whose sources lie in a folder.
fn arrows(folder: &Path) -> Arrows {
    let mut found = BTreeMap::new();
    read(folder, &Module::new(), &mut found);
    // A folder without a file of its own counts, too.
    let all: BTreeSet<Module> = found
        .keys()
        .flat_map(|module| (1..=module.len()).map(|length| module[..length].to_vec()))
        .collect();
    let arrow = |(module, named_paths): (&Module, &Named)| {
        let to = named_paths.0.iter().map(|path| named(path, module, &all));
        (module.clone(), to.collect())
    };
    found.iter().map(arrow).collect()
}

/// The arrows between the modules directly below a module by which they import each other in a loop, as
/// `graph → words`.
fn loops(arrows: &Arrows, below: &Module) -> Vec<String> {
    let depth = below.len();
    let child = |module: &Module| -> Option<String> {
        (module.len() > depth && module.starts_with(below)).then(|| module[depth].clone())
    };
    let mut next: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, all) in arrows {
        let Some(from) = child(from) else { continue };
        let to = all.iter().filter_map(child).filter(|to| *to != from);
        next.entry(from.clone()).or_default().extend(to);
    }
    let reaches = |from: &String, to: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(at) = left.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                left.extend(next.get(at).into_iter().flatten());
            }
        }
        false
    };
    let all = next
        .iter()
        .flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
    all.filter(|(from, to)| reaches(to, from))
        .map(|(from, to)| format!("{from} → {to}"))
        .collect()
}

#[test]
fn a_loop_is_found_and_tests_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; mod d;");
    write("a.rs", "use crate::b::Thing;");
    write("b.rs", "fn f() { super::c::f(); }");
    write("c.rs", "use super::{d, a::{self, Other}};");
    write(
        "d.rs",
        "#[cfg(test)] mod tests { use crate::c; } #[cfg(test)] use crate::c;",
    );
    let found = loops(&arrows(folder.path()), &Module::new());
    assert_eq!(found, ["a → b", "b → c", "c → a"]);
}

#[test]
fn no_folders_of_a_crate_import_each_other() {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sbt-agent");
    for sources in ["src", "program/src", "engine/src"] {
        let found = arrows(&agent.join(sources));
        assert!(found.len() > 50, "{sources}: {} modules", found.len());
        let none: [String; 0] = [];
        assert_eq!(loops(&found, &Module::new()), none, "{sources}");
    }
}

#[test]
fn no_modules_of_the_engine_import_each_other() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sbt-agent/engine/src");
    let found = arrows(&engine);
    for module in found.keys() {
        for length in 0..module.len() {
            let below = module[..length].to_vec();
            let none: [String; 0] = [];
            assert_eq!(loops(&found, &below), none, "{}", below.join("/"));
        }
    }
}
