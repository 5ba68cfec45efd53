//! Other programs change the file meanwhile, or it cannot be written.

use super::*;

#[test]
fn what_is_not_ours_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sbt");
    fs::write(&path, "before").unwrap();
    let left = format!(".run.sbt.{}-0.next", std::process::id());
    fs::write(folder.path().join(&left), "left").unwrap();
    let linked = folder.path().join("link.sbt");
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    let bound = Bound::new(&linked, KEPT).unwrap();
    assert_eq!(bound, Bound::new(&path, KEPT).unwrap(), "the file itself");
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(fs::read(folder.path().join(left)).unwrap(), b"left");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    // The longest possible name, and a folder with the name of the new file.
    let path = folder.path().join("n".repeat(255));
    fs::write(&path, "before").unwrap();
    fs::create_dir(folder.path().join(".run.sbt.next")).unwrap();
    assert!(Bound::new(&path, KEPT).is_ok());
}

/// Flushes for a minute of the recording's time, or until that fails. Returns the error.
fn failure(recorder: &mut Recorder, keep: Option<Keep>) -> String {
    let flushes = (1..120).map(|number| number * FLUSH);
    let mut failed = flushes.filter_map(|at| {
        let report = keep.map(|_| empty(at));
        recorder.flush(facts_at(at), report).err()
    });
    failed
        .next()
        .map_or_else(String::new, |error| format!("{error:#}"))
}

#[test]
fn what_others_do_to_the_file_is_found_out() {
    for keep in [None, Some(KEPT), Some(Keep::Statistics)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sbt");
        let mut recorder = begun(&path, keep);
        assert_eq!(failure(&mut recorder, keep), "", "{keep:?}");
        // The file is removed,
        fs::remove_file(&path).unwrap();
        let why = failure(&mut recorder, keep);
        assert!(why.contains("removed or replaced"), "{keep:?}: {why}");
        // replaced,
        let mut recorder = begun(&path, keep);
        let other = folder.path().join("other");
        fs::write(&other, "foreign").unwrap();
        fs::rename(&other, &path).unwrap();
        let why = failure(&mut recorder, keep);
        assert!(why.contains("removed or replaced"), "{keep:?}: {why}");
        assert_eq!(fs::read(&path).unwrap(), b"foreign");
        // cut off,
        let mut recorder = begun(&path, keep);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(10)
            .unwrap();
        let why = failure(&mut recorder, keep);
        assert!(why.contains("truncated its file"), "{keep:?}: {why}");
        drop(recorder);
        // written to.
        let mut recorder = begun(&path, keep);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"more").unwrap();
        let why = failure(&mut recorder, keep);
        assert!(why.contains("wrote to it"), "{keep:?}: {why}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{keep:?}");
    }
}

#[test]
fn one_file_is_of_one_recording() {
    for keep in [None, Some(KEPT), Some(Keep::Statistics)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sbt");
        let mut recorder = begun(&path, keep);
        let other = || {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            Sink::to(file, &path, keep)
        };
        let refused = |other: anyhow::Result<Sink>| {
            let error = other.err().unwrap().to_string();
            assert!(error.contains("another sbt records into it"), "{error}");
        };
        refused(other());
        // Also into the file that has replaced it meanwhile.
        assert_eq!(failure(&mut recorder, keep), "");
        refused(other());
        recorder.end(facts_at(S), keep.map(|_| empty(S))).unwrap();
        assert!(other().is_ok());
    }
}
