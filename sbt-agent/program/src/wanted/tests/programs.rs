//! The programs in `tests/programs`.

use super::*;

/// All lines of the programs in `tests/programs`, compiled with -O3.
#[test]
fn no_line_leads_into_an_instruction() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let mut probed = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let source = entry.unwrap().path();
        let name = source.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = source.extension().and_then(|kind| kind.to_str());
        if !matches!(kind, Some("c" | "cpp")) {
            continue;
        }
        let mut options = vec!["-g", "-O3", "-ldl"];
        if matches!(
            &*name,
            "plugin.c" | "openmp_plugin.c" | "mpi_count.c" | "reloaded.c"
        ) {
            options.extend(["-shared", "-fPIC"]);
        }
        if kind == Some("cpp") {
            options.push("-std=c++20");
        }
        if name.contains("openmp") || ["rapid.c", "regions.c"].contains(&&*name) {
            options.push("-fopenmp");
        }
        if name.starts_with("mpi") {
            // The options that MPI's compiler, mpicc, adds in Debian.
            options.extend([
                "-I/usr/lib/x86_64-linux-gnu/openmpi/include",
                "-L/usr/lib/x86_64-linux-gnu/openmpi/lib",
                "-lmpi_mpifh",
                "-lmpi",
            ]);
        }
        let built = Built::of(TempDir::new().unwrap(), &source, &options);
        let instructions = built.instructions();
        let lines = fs::read_to_string(&source).unwrap().lines().count();
        let wishes: Vec<_> = (1..=lines).map(|line| format!("{name}:{line}")).collect();
        let wishes: Vec<_> = wishes.iter().map(String::as_str).collect();
        let file = built.file(&wanted(&wishes, MARK));
        let segments = elf::load_segments(file.image()).unwrap();
        let text = segments.iter().find(|segment| segment.executable).unwrap();
        for point in &file.points {
            let address = point.entry_offset - text.offset + text.vaddr;
            assert!(instructions.contains(&address), "{name}: {address:#x}");
            probed += 1;
        }
    }
    assert!(probed > 200, "{probed}");
}

/// Ends of functions that return, that jump to another function in their own place, and that have a
/// `switch`.
#[test]
fn the_ends_of_barriers_are_found() {
    let barrier = Purpose::Barrier {
        object: None,
        count: None,
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let ends = |source: &str, function: &str, optimise: &str| {
        let options = ["-g", "-pthread", optimise];
        let built = Built::of(TempDir::new().unwrap(), &folder.join(source), &options);
        let file = built.file(&wanted(&[function], barrier));
        let instructions = built.instructions();
        let segments = elf::load_segments(file.image()).unwrap();
        let text = segments.iter().find(|segment| segment.executable).unwrap();
        let image = file.image();
        let exits = file.points.iter();
        exits
            .filter(|point| point.function == Function::CallExit)
            .map(|point| {
                let address = point.entry_offset - text.offset + text.vaddr;
                assert!(instructions.contains(&address), "{source}: {address:#x}");
                image[usize::try_from(point.entry_offset).unwrap()]
            })
            .collect::<Vec<u8>>()
    };
    for optimise in ["-O0", "-O1", "-O2", "-O3"] {
        for (source, function) in [("throws.cpp", "Gate::wait"), ("calls.c", "bar_wait")] {
            let codes = ends(source, function, optimise);
            assert!(!codes.is_empty(), "{source} {optimise}");
            let known = |code: &u8| matches!(code, 0xc3 | 0xe9 | 0xeb);
            assert!(codes.iter().all(known), "{source} {optimise}: {codes:x?}");
        }
    }
    // The jump to the unlocking function is an end, the jump to the waiting function is not.
    assert!(ends("calls.c", "bar_wait", "-O2").contains(&0xe9));
    assert_eq!(ends("tails.c", "only_passes_on", "-O2"), Vec::<u8>::new());
    assert_eq!(ends("tails.c", "passes_on_inside", "-O2"), [0xc3]);
    assert!(!ends("tails.c", "chooses", "-O2").is_empty());
}
