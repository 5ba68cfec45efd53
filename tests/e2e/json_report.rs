//! The JSON report of sbt, as the tests read it.

use std::{fs, path::Path, sync::OnceLock};

use serde_json::Value;

/// The schema to which every report must conform.
fn schema() -> &'static jsonschema::Validator {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
        let text = fs::read_to_string(path).unwrap();
        jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
    })
}

/// A JSON report.
pub struct Report(pub Value);

impl Report {
    /// Reads a report that must be free of losses and contradictions.
    #[track_caller]
    pub fn read(path: &Path) -> Self {
        let report = Self::read_lossy(path);
        assert!(report.number("lost_events") == 0, "{}", report.loss());
        report
    }

    /// A text that begins with the losses, since long messages are cut.
    fn loss(&self) -> String {
        let notes: Vec<_> = self.notes().collect();
        format!(
            "lost_events {} (seen: events {}, arrivals {}, episodes {}, incomplete_episodes {}), \
             efficiency withheld: {}, notes: {notes:?}, report: {self}",
            self.number("lost_events"),
            self.0["own_cost"]["events"],
            self.number("arrivals"),
            self.number("episodes"),
            self.number("incomplete_episodes"),
            self.withheld("efficiency")
                .map_or(&Value::Null, |withheld| &withheld["because"]),
        )
    }

    /// Reads a report in which events may have been lost; it must still be free of contradictions.
    #[track_caller]
    pub fn read_lossy(path: &Path) -> Self {
        let text = fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("no report in {}: {error}", path.display()));
        let report = serde_json::from_str(&text);
        let report: Value = report.unwrap_or_else(|error| panic!("{error} in:\n{text}"));
        let errors = schema().iter_errors(&report);
        let errors: Vec<_> = errors
            .map(|e| format!("{}: {e}", e.instance_path))
            .collect();
        assert!(errors.is_empty(), "against the schema: {errors:#?}");
        let report = Self(report);
        report.is_possible();
        report
    }

    /// The entry that says why a figure is withheld; `None` if it is not.
    pub fn withheld(&self, figure: &str) -> Option<&Value> {
        let mut all = self.list("withheld").iter();
        all.find(|withheld| withheld["figure"] == figure)
    }

    /// Fails if figures cannot be true, or if sbt withheld some because of a contradiction.
    #[track_caller]
    fn is_possible(&self) {
        for withheld in self.list("withheld") {
            assert_ne!(withheld["reason"], "contradiction", "{withheld}");
        }
        let efficiency = &self.0["efficiency"];
        let is_known = !efficiency.is_null();
        assert_ne!(is_known, self.withheld("efficiency").is_some(), "{self}");
        assert!(!(is_known && self.number("lost_events") > 0), "{self}");
        if is_known {
            let share = |name: &str| efficiency[name].as_f64().unwrap();
            for name in ["parallel", "load_balance", "serialisation", "transfer"] {
                assert!((0.0..=1.000_001).contains(&share(name)), "{name}: {self}");
            }
            let threads = share("threads");
            assert!(share("speedup") <= threads * 1.000_001, "{self}");
            let wall_ns = self.number("wall_ns") as f64;
            let useful_ns = share("speedup") * share("path_ns") / share("transfer").max(1e-9);
            let missing_ns = threads * wall_ns - useful_ns;
            // If the program goes on, events still arrive for a moment after the end of watching.
            let is_whole = self.0["ended"] == true;
            let lost_ns: u64 = self
                .sites()
                .iter()
                .map(|site| number(site, "lost_ns"))
                .sum();
            let most_ns = 1.1 * missing_ns + 0.01 * threads * wall_ns + 1e7;
            assert!(
                !is_whole || lost_ns as f64 <= most_ns,
                "{lost_ns} of {missing_ns}: {self}"
            );
        }
        self.has_sums();
        for verdict in self.0["verdicts"].as_array().into_iter().flatten() {
            let is_lossy = self.number("lost_events") > 0;
            assert!(!(is_lossy && verdict["kind"] == "no-problem"), "{self}");
        }
    }

    /// Fails unless the counters of sites and threads agree with the totals.
    #[track_caller]
    fn has_sums(&self) {
        for counter in self.list("counters") {
            let name = counter["name"].as_str().unwrap();
            let value = |of: &Value| of["counters"][name].as_u64().unwrap_or(0);
            let sum = |all: &[Value]| all.iter().map(value).sum::<u64>();
            let all = counter["work"].as_u64().unwrap_or(0);
            assert_eq!(sum(self.list("threads")), all, "{name} of threads: {self}");
            // Work after a thread's last barrier belongs to no site.
            assert!(sum(self.sites()) <= all, "{name} at sites: {self}");
            for site in self.sites() {
                let threads = site["threads"].as_array().unwrap();
                assert_eq!(sum(threads), value(site), "{name}: {site}");
                let here = |phase: &&Value| phase["to"] == site["id"];
                let phases = self.list("phases").iter().filter(here);
                let phases = phases.map(value).sum::<u64>();
                assert!(phases <= value(site), "{name} of phases: {site}");
            }
        }
    }

    #[track_caller]
    pub fn number(&self, field: &str) -> u64 {
        number(&self.0, field)
    }

    pub fn list(&self, field: &str) -> &[Value] {
        self.0[field].as_array().unwrap()
    }

    /// The verdicts; empty if the report gives a reason instead of verdicts.
    pub fn verdicts(&self) -> &[Value] {
        self.0["verdicts"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.list("notes").iter().map(|note| note.as_str().unwrap())
    }

    /// Whether a note contains these words.
    pub fn is_noted(&self, words: &str) -> bool {
        self.notes().any(|note| note.contains(words))
    }

    pub fn sites(&self) -> &[Value] {
        self.list("sites")
    }

    pub fn threads(&self) -> &[Value] {
        self.list("threads")
    }

    /// The only site at this line; fails if there are more or none.
    #[track_caller]
    pub fn site_at(&self, line: u32) -> &Value {
        let found: Vec<_> = self
            .sites()
            .iter()
            .filter(|site| site["line"] == line)
            .collect();
        assert_eq!(found.len(), 1, "sites at line {line} in {self}");
        found[0]
    }

    /// Fails unless everything was seen, with these numbers and no incomplete episode.
    #[track_caller]
    pub fn is_exactly(&self, arrivals: u64, episodes: u64) -> &Self {
        let seen = ["arrivals", "episodes", "incomplete_episodes", "lost_events"]
            .map(|field| self.number(field));
        let expected = [arrivals, episodes, 0, 0];
        assert!(
            seen == expected,
            "arrivals, episodes, incomplete, lost: {seen:?} and not {expected:?}: {self}"
        );
        self.is_consistent()
    }

    /// Fails unless the parts add up to the whole.
    #[track_caller]
    pub fn is_consistent(&self) -> &Self {
        let sum = |list: &[Value], field: &str| -> u64 {
            list.iter().map(|item| number(item, field)).sum()
        };
        let episodes = self.number("episodes");
        assert_eq!(sum(self.threads(), "arrivals"), self.number("arrivals"));
        assert_eq!(sum(self.threads(), "last"), episodes, "{self}");
        let time = |field: &str| number(&self.0["thread_time"], field);
        assert_eq!(sum(self.threads(), "idle_ns"), time("idle_ns"), "{self}");
        let release_ns = self.0["thread_time"]["release_ns"].as_u64().unwrap_or(0);
        let between_ns = self.0["thread_time"]["between_ns"].as_u64().unwrap_or(0);
        let parts = time("idle_ns") + time("work_ns") + release_ns + between_ns;
        assert_eq!(time("total_ns"), parts, "{self}");
        assert_eq!(sum(self.sites(), "episodes"), episodes, "{self}");
        assert_eq!(sum(self.list("barriers"), "episodes"), episodes, "{self}");
        // After an incomplete episode, the beginning of each thread's next phase may be unknown,
        // and each thread may be in a different team.
        let phases = sum(self.list("phases"), "episodes");
        let unknown = episodes.checked_sub(phases);
        // When sbt attaches, a thread may just be leaving a barrier that it was not seen to enter.
        let joined = u64::from(self.0["exit_status"].is_null());
        let cut = self.number("incomplete_episodes") + joined;
        let at_most = cut * self.threads().len() as u64;
        assert!(
            unknown.is_some_and(|unknown| unknown <= at_most),
            "{phases} phases: {self}"
        );
        assert_eq!(
            sum(self.sites(), "incomplete"),
            self.number("incomplete_episodes"),
            "{self}"
        );
        assert_eq!(
            sum(self.sites(), "lost_ns"),
            sum(self.threads(), "idle_ns"),
            "{self}"
        );
        for site in self.sites() {
            let threads = site["threads"].as_array().unwrap();
            assert_eq!(sum(threads, "last"), number(site, "episodes"), "{self}");
            assert_eq!(sum(threads, "idle_ns"), number(site, "lost_ns"), "{self}");
        }
        self
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Long lists are cut: there may be thousands of threads.
        let mut value = self.0.clone();
        for field in ["threads", "sites", "barriers", "phases", "unfinished"] {
            shorten(&mut value[field]);
        }
        for site in value["sites"].as_array_mut().into_iter().flatten() {
            // The last entry may be the text of how many were cut.
            site.get_mut("threads").map(shorten);
        }
        write!(f, "{value:#}")
    }
}

fn shorten(list: &mut Value) {
    const SHOWN: usize = 8;
    if let Some(list) = list.as_array_mut().filter(|list| list.len() > SHOWN) {
        let more = list.len() - SHOWN;
        list.truncate(SHOWN);
        list.push(format!("and {more} more").into());
    }
}

/// A number in a JSON object.
#[track_caller]
pub fn number(value: &Value, field: &str) -> u64 {
    value[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {field} in {value:#}"))
}

/// A number of each thread at a site.
pub fn each(site: &Value, field: &str) -> Vec<u64> {
    let threads = site["threads"].as_array().unwrap();
    threads.iter().map(|thread| number(thread, field)).collect()
}
