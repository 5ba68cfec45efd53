use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A folder that exists, in one that does.
fn folder(of: &tempfile::TempDir) -> Folder {
    fs::set_permissions(of.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Folder {
        path: of.path().join("sbt"),
        owner: nix::unistd::geteuid().as_raw(),
    }
}

fn tariff(wait: f64) -> Tariff {
    let mut tariff = Tariff::default();
    tariff.each[0] = wait;
    tariff
}

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

#[test]
fn costs_are_found_for_ten_minutes_under_their_key_alone() {
    let temp = tempfile::tempdir().unwrap();
    let folder = folder(&temp);
    assert_eq!(folder.find("a", NOW), None);
    folder.keep("a", &tariff(1.5), NOW);
    folder.keep("b", &tariff(2.5), NOW);
    assert_eq!(folder.find("a", NOW), Some(tariff(1.5)));
    assert_eq!(folder.find("b", NOW + FRESH), Some(tariff(2.5)));
    assert_eq!(folder.find("c", NOW), None);
    assert_eq!(folder.find("a", NOW + FRESH + Duration::from_secs(1)), None);
    folder.keep("a", &tariff(3.5), NOW + FRESH);
    assert_eq!(folder.find("a", NOW + FRESH), Some(tariff(3.5)));
    // Measured in the future: the clock was set back.
    assert_eq!(folder.find("a", NOW), None);
    let files: Vec<_> = fs::read_dir(&folder.path).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn the_oldest_costs_make_room() {
    let temp = tempfile::tempdir().unwrap();
    let folder = folder(&temp);
    for key in 0..=MOST {
        folder.keep(&key.to_string(), &tariff(1.0), NOW);
    }
    assert_eq!(folder.find("0", NOW), None);
    assert!(folder.find("1", NOW).is_some());
}

#[test]
fn costs_of_another_boot_or_that_are_none_are_not_used() {
    let temp = tempfile::tempdir().unwrap();
    let folder = folder(&temp);
    folder.keep("a", &tariff(1.5), NOW);
    let text = fs::read_to_string(folder.file()).unwrap();
    for (from, to) in [
        (boot().unwrap(), "another".to_owned()),
        ("1.5".to_owned(), "-1.5".to_owned()),
        ("1.5".to_owned(), "0.0".to_owned()),
        ("1.5".to_owned(), "1e999".to_owned()),
        ("{".to_owned(), String::new()),
    ] {
        assert!(text.contains(&from), "{text}");
        fs::write(folder.file(), text.replace(&from, &to)).unwrap();
        assert_eq!(folder.find("a", NOW), None, "{from} → {to}");
    }
    folder.keep("a", &tariff(2.5), NOW);
    assert_eq!(folder.find("a", NOW), Some(tariff(2.5)));
}

#[test]
fn a_folder_that_others_can_change_is_not_used() {
    let temp = tempfile::tempdir().unwrap();
    let folder = folder(&temp);
    folder.keep("a", &tariff(1.5), NOW);
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&folder.path, 0o777);
    assert_eq!(folder.find("a", NOW), None);
    set(&folder.path, 0o700);
    set(temp.path(), 0o1777);
    assert_eq!(folder.find("a", NOW), None);
    set(temp.path(), 0o755);
    let of_another = Folder {
        owner: folder.owner + 1,
        ..folder.clone()
    };
    assert_eq!(of_another.find("a", NOW), None);
    assert_eq!(folder.find("a", NOW), Some(tariff(1.5)));
    // The file itself may lead elsewhere.
    fs::rename(folder.file(), temp.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(temp.path().join("elsewhere"), folder.file()).unwrap();
    assert_eq!(folder.find("a", NOW), None);
}
