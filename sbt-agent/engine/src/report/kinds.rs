//! Words that reports choose from, each list once: the JSON Schema is made of it.

/// Declares an enum whose variants have names in reports. A name that this sbt does not know, as a
/// report of a newer one may have, is read as `Other`.
macro_rules! kinds {
    ($(#[$about:meta])* pub enum $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum $kind {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
            /// A kind that this version of sbt does not know.
            #[serde(other, rename = "other")]
            #[cfg_attr(test, schemars(skip))]
            Other,
        }

        impl $kind {
            /// All kinds, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other => "other",
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl PartialEq<&str> for $kind {
            fn eq(&self, name: &&str) -> bool {
                self.name() == *name
            }
        }
    };
}

kinds! {
    /// Why threads waited for each other; docs/verdicts.md has the conditions of each.
    pub enum VerdictKind {
        /// In the whole run: threads spin at barriers while others are ready without a CPU.
        SpinningWhileOthersLackCpus = "spinning-while-others-lack-cpus",
        /// In the whole run: more threads than CPUs.
        MoreThreadsThanCpus = "more-threads-than-cpus",
        /// In the whole run: threads first meet late.
        SerialStart = "serial-start",
        /// In the whole run: one thread works between parallel regions.
        SerialPart = "serial-part",
        /// In the whole run: threads are idle or gone after the last episode.
        SerialEnd = "serial-end",
        /// In the whole run: nothing was found.
        NoProblem = "no-problem",
        /// At a site: the barrier takes longer than the phase before it.
        PhaseTooShort = "phase-too-short",
        /// At a site: the last thread was blocked in the kernel.
        StragglerBlocked = "straggler-blocked",
        /// At a site: the last thread was ready without a CPU.
        StragglerLostItsCpu = "straggler-lost-its-cpu",
        /// At a site: the last thread executes more instructions than the others.
        StragglerExecutesMore = "straggler-executes-more",
        /// At a site: the last thread executes as many instructions, and needs longer for each.
        StragglerExecutesSlower = "straggler-executes-slower",
        /// At a site: one thread works while all others wait.
        SerialPhase = "serial-phase",
        /// At a site: the same thread is last nearly always.
        PersistentStraggler = "persistent-straggler",
        /// At a site: a few threads are last in turns.
        AlternatingStragglers = "alternating-stragglers",
        /// At a site: any thread may be last.
        RotatingStraggler = "rotating-straggler",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_verdict_is_in_the_documents() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verdicts.md");
        let page = std::fs::read_to_string(page).unwrap();
        for kind in VerdictKind::ALL {
            assert!(page.contains(&format!("`{kind}`")), "{kind}");
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_read_as_another() {
        let read = |text: &str| serde_json::from_str::<VerdictKind>(text).unwrap();
        for kind in VerdictKind::ALL {
            assert_eq!(read(&serde_json::to_string(kind).unwrap()), *kind);
        }
        assert_eq!(read("\"what-comes-later\""), VerdictKind::Other);
    }
}
