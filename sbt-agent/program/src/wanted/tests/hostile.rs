//! Damaged files.

use proptest::prelude::*;

use super::*;

/// Whatever a file claims, points lie in the file, on instructions that can be probed.
#[test]
fn damaged_files() {
    use object::{Object as _, ObjectSection as _};
    let built = Built::c(&["-g", "-O3"]);
    let good = fs::read(&built.program).unwrap();
    let file = object::File::parse(&good[..]).unwrap();
    let ranges: Vec<_> = file
        .sections()
        .filter(|section| {
            let name = section.name().unwrap_or_default();
            name.starts_with(".debug") || name.ends_with("tab") || name == ".text"
        })
        .filter_map(|section| section.file_range())
        .collect();
    let (start, _) = built.extent("step");
    let wishes = [
        "step",
        "meet",
        "lu.c:5",
        "lu.c:10",
        "lu.c:23",
        "twice",
        "step+0x2",
        &format!("lu!{:#x}", start + 2),
    ];
    let barriers = wanted(&["step", "meet", "main"], BARRIER);
    let marks = wanted(&wishes, MARK);
    let flips = proptest::collection::vec(any::<(u16, u32, u8)>(), 1..40);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lu");
    proptest!(ProptestConfig::with_cases(400), |(flips in &flips)| {
        let mut image = good.clone();
        for (section, at, value) in flips {
            let (start, length) = ranges[usize::from(section) % ranges.len()];
            let at = start + u64::from(at) % length;
            image[usize::try_from(at).unwrap()] = value;
        }
        fs::write(&path, &image).unwrap();
        for wanted in [&marks, &barriers] {
            // A file that would cost too much is refused with one line.
            let Ok(mut file) = ProbedFile::open(&path, &path) else {
                continue;
            };
            file.look_for(wanted, folder.path());
            for point in &file.points {
                let code = usize::try_from(point.entry_offset).ok().and_then(|at| image.get(at..));
                assert!(is_probeable(code.unwrap()), "{point:?}");
            }
            let _ = wanted.missing(&[Arc::new(file)]);
        }
    });
}
