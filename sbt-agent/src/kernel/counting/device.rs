//! Counters of devices, as the kernel describes them in sysfs: the number of the device, the bits
//! of each field of an event's configuration, and the names of events.
//!
//! `perf_event::events::Dynamic` reads the same files, but not all of them, as of its
//! version 0.7. The crate refuses a whole device of which one field has bits at two places,
//! as `event` of each AMD processor (`config:0-7,32-35`), or has bits in `config3`. The crate
//! takes decimal numbers for hexadecimal ones, wants a value for each field of a device,
//! and does not know `config=`.

use std::{fs, path::Path};

use perf_event::{Builder, events::Raw};

use sbt_engine::counters::name::number;

/// The kernel's folder of these devices.
pub const DEVICES: &str = "/sys/bus/event_source/devices";

/// The numbers by which a perf event is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventNumbers {
    /// `perf_event_attr.type`
    pub kind: u32,
    /// `config`, `config1`, `config2`
    pub config: [u64; 3],
}

impl EventNumbers {
    /// An event of any thread, enabled as soon as it is open.
    pub fn event(self) -> Builder<'static> {
        let [config, config1, config2] = self.config;
        let mut event = Builder::new(Raw::new(config).config1(config1).config2(config2));
        event.attrs_mut().type_ = self.kind;
        event.enabled(true).include_kernel().include_hv();
        event
    }
}

/// Finds an event of a device of this machine, as [`find`] does.
pub fn here(device: &str, terms: &[(String, Option<u64>)]) -> Result<EventNumbers, String> {
    find(Path::new(DEVICES), device, terms)
}

/// Finds an event of a device; `root` is [`DEVICES`]. The error says what is missing.
pub fn find(
    root: &Path,
    device: &str,
    terms: &[(String, Option<u64>)],
) -> Result<EventNumbers, String> {
    let folder = root.join(device);
    let read = |path: &Path| {
        let text = fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    };
    let kind = read(&folder.join("type")).and_then(|text| text.parse().ok());
    let kind = kind.ok_or_else(|| {
        format!(
            "this machine has no device `{device}` with counters; `sbt list` shows the devices \
            that it has"
        )
    })?;
    if folder.join("cpumask").exists() && !folder.join("cpus").exists() {
        return Err(format!(
            "`{device}` counts for a whole part of the machine, not for single threads"
        ));
    }
    let mut asked = EventNumbers {
        kind,
        ..EventNumbers::default()
    };
    for (name, value) in terms {
        let event = read(&folder.join("events").join(name)).filter(|_| value.is_none());
        if let Some(event) = event {
            for part in event.split(',') {
                let (field, value) = part.split_once('=').unwrap_or((part, "1"));
                let value = number(value).ok_or_else(|| {
                    format!("`{device}/{name}/` needs a value for `{field}`: {event}")
                })?;
                set(&folder, device, field, value, &mut asked)?;
            }
        } else {
            set(&folder, device, name, value.unwrap_or(1), &mut asked)?;
        }
    }
    Ok(asked)
}

/// Puts a value into the bits of a device's field.
fn set(
    folder: &Path,
    device: &str,
    field: &str,
    value: u64,
    asked: &mut EventNumbers,
) -> Result<(), String> {
    let direct = ["config", "config1", "config2"];
    if let Some(word) = direct.iter().position(|name| *name == field) {
        asked.config[word] |= value;
        return Ok(());
    }
    let format = fs::read_to_string(folder.join("format").join(field)).map_err(|_| {
        format!("`{device}` has no event or field `{field}`; `sbt list` shows its events")
    })?;
    place(format.trim(), value, asked).ok_or_else(|| {
        format!(
            "`{device}`: {value:#x} does not fit into `{field}` ({})",
            format.trim()
        )
    })
}

/// Puts a value into bits such as `config1:0-7,32-35`: its lowest bits go into the first range.
fn place(format: &str, value: u64, asked: &mut EventNumbers) -> Option<()> {
    let (word, ranges) = format.split_once(':')?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    let mut left = value;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        let width = high.checked_sub(low)? + 1;
        if high > 63 {
            return None;
        }
        let mask = u64::MAX >> (64 - width);
        asked.config[word] |= (left & mask) << low;
        left = left.checked_shr(width).unwrap_or(0);
    }
    (left == 0).then_some(())
}

/// Devices with the names of their events, both sorted.
pub fn all(root: &Path) -> Vec<(String, Vec<String>)> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    };
    let events = |device: &String| {
        let mut events = names(&root.join(device).join("events"));
        // Next to an event there may be files with its unit and scale.
        events.retain(|event| !event.contains('.'));
        events
    };
    let devices = names(root).into_iter();
    devices
        .map(|device| (device.clone(), events(&device)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("cpu/type", "4\n"),
            ("cpu/format/event", "config:0-7,32-35\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/format/edge", "config:18\n"),
            ("cpu/format/ldlat", "config1:0-15\n"),
            ("cpu/events/slots", "event=0x00,umask=0x4\n"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=?\n"),
            ("power/type", "20\n"),
            ("power/cpumask", "0\n"),
            ("power/events/energy-cores", "event=0x01\n"),
            ("power/events/energy-cores.unit", "Joules\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn find_in(root: &Path, text: &str) -> Result<EventNumbers, String> {
        match text.parse::<sbt_engine::counters::Counter>()?.what {
            sbt_engine::counters::CounterKind::Device { device, terms } => {
                find(root, &device, &terms)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_go_where_the_format_says() {
        let root = machine();
        let config = |text| find_in(root.path(), text).map(|asked| asked.config);
        assert_eq!(config("cpu/slots/"), Ok([0x400, 0, 0]));
        assert_eq!(
            config("cpu/event=0x23c,umask=0x1/"),
            Ok([0x2_0000_013c, 0, 0])
        );
        assert_eq!(config("cpu/event=1,edge,ldlat=3/"), Ok([0x4_0001, 3, 0]));
        assert_eq!(config("cpu/config=0x1b7,config2=2/"), Ok([0x1b7, 0, 2]));
    }

    #[test]
    fn what_is_missing_is_named() {
        let root = machine();
        for (text, words) in [
            ("gpu/busy/", "no device `gpu`"),
            ("cpu/slot/", "no event or field `slot`"),
            ("cpu/umask=0x100/", "does not fit"),
            ("cpu/mem-loads/", "needs a value for `ldlat`"),
            ("power/energy-cores/", "not for single threads"),
        ] {
            let error = find_in(root.path(), text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn events_are_listed_by_device() {
        let root = machine();
        assert_eq!(
            all(root.path()),
            [
                ("cpu".into(), vec!["mem-loads".into(), "slots".into()]),
                ("power".into(), vec!["energy-cores".into()]),
            ]
        );
    }
}
