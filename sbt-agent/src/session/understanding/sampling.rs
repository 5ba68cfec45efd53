//! Samples where the target's threads run: takes the samples, follows their callers and hands them
//! to the model.

use std::{fs::File, io::Write as _, path::Path, time::Duration};

use anyhow::Context as _;

use super::Understanding;
use crate::{kernel::counting, output, settings::Settings, source::profile::Profile, usage::Usage};
use sbt_engine::{
    chains::Chains,
    model::Model,
    place::printable,
    report::{FunctionReport, SamplingReport, folded, functions},
};
use sbt_program::{
    process,
    sites::{Resolver, Stacks},
};

/// The interval between two reads of the samples; the rings have room for several times as long.
pub const PERIOD: Duration = Duration::from_millis(40);

/// The kernel's file with the highest sampling rate it allows, per second.
const MOST: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// Reports errors in the sampling settings before the program starts, and creates the file for
/// folded stacks if the user asked for the file.
pub fn prepare(settings: &Settings) -> anyhow::Result<Option<File>> {
    if settings.sample > 0 {
        let most = std::fs::read_to_string(MOST).ok();
        if let Some(most) = most.and_then(|text| text.trim().parse::<u32>().ok()) {
            anyhow::ensure!(
                settings.sample <= most,
                "--sample {}: this kernel takes at most {most} samples a second: ask for fewer, or \
                 raise the limit: sysctl kernel.perf_event_max_sample_rate={}",
                settings.sample,
                settings.sample
            );
        }
    }
    let Some(path) = &settings.folded else {
        return Ok(None);
    };
    if settings.sample == 0 {
        return Err(Usage("--folded needs samples: add --sample 200".into()).into());
    }
    output::for_stacks(path).map(Some)
}

/// The sampler of one run.
pub struct Sampling {
    hz: u32,
    /// `None` after watching has ended.
    profile: Option<Profile>,
    stacks: Stacks,
    chains: Chains,
    lost: u64,
    truncated: u64,
    of_own_code: bool,
}

/// The note for a user who may not sample kernel code.
const OF_OWN_CODE: &str = "--sample sees the program's own code only: this user may not sample the \
    kernel, so the time of system calls and page faults is missing; use sudo, CAP_PERFMON or `sudo \
    sysctl kernel.perf_event_paranoid=1`";

impl Sampling {
    /// Begins to sample if the settings ask for samples; with `children` also in processes that the
    /// target starts.
    pub fn begin(settings: &Settings, pid: u32, children: bool) -> anyhow::Result<Option<Self>> {
        let hz = settings.sample;
        if hz == 0 {
            return Ok(None);
        }
        let threads = || {
            let mut all: Vec<u32> = process::thread_ids(pid).collect();
            if children {
                let descendants = process::descendants(pid);
                all.extend(descendants.into_iter().flat_map(process::thread_ids));
            }
            all
        };
        let profile = Profile::begin(hz, children, &counting::online(), threads);
        let profile = profile.with_context(|| {
            format!(
                "--sample {hz}: the kernel does not sample this process; perhaps sysctl \
                 kernel.perf_event_paranoid forbids it, or threads times CPUs exceed the limit of \
                 open files (ulimit -n)"
            )
        })?;
        Ok(Some(Self {
            hz,
            of_own_code: profile.is_of_own_code(),
            profile: Some(profile),
            stacks: Stacks::default(),
            chains: Chains::default(),
            lost: 0,
            truncated: 0,
        }))
    }

    /// The note for the user; `None` if kernel code was sampled too.
    pub fn note(&self) -> Option<String> {
        self.of_own_code.then(|| OF_OWN_CODE.to_owned())
    }

    /// The run time that one sample stands for, ns.
    pub fn period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// Hands the samples taken so far to the model. Call this before the model gets later events.
    pub fn take(&mut self, resolver: &mut Resolver, model: &mut Model) {
        let Some(profile) = &mut self.profile else {
            return;
        };
        let (samples, lost) = profile.drain();
        self.lost += lost;
        for sample in samples {
            let (functions, is_whole) = self.stacks.functions(&sample, resolver);
            self.truncated += u64::from(!is_whole);
            let chain = self.chains.number(&functions, is_whole);
            model.sampled(sample.thread, sample.time_ns, chain);
        }
    }

    /// Pauses or resumes sampling.
    pub fn switch(&mut self, on: bool) {
        if let Some(profile) = &mut self.profile {
            profile.switch(on);
        }
    }

    /// Stops sampling for good.
    pub fn end(&mut self) {
        self.profile = None;
    }

    /// Resets the counts of lost and truncated samples.
    pub fn reset(&mut self) {
        (self.lost, self.truncated) = (0, 0);
    }

    /// The totals and the functions for the report; `None` if the model keeps no samples.
    pub fn report(&self, model: &Model) -> Option<(SamplingReport, Vec<FunctionReport>)> {
        let mut sampling = SamplingReport {
            hz: self.hz,
            lost: self.lost,
            truncated: self.truncated,
            ..SamplingReport::default()
        };
        let functions = functions(model.samples()?, &self.chains, &mut sampling);
        Some((sampling, functions))
    }

    /// The folded stacks, one per line.
    pub fn folded(&self, model: &Model) -> Option<Vec<String>> {
        let text = folded(model.samples()?, &self.chains);
        Some(text.lines().map(str::to_owned).collect())
    }

    /// Writes the folded stacks to `file`.
    fn write(&self, mut file: &File, path: &Path, model: &Model) -> anyhow::Result<()> {
        let Some(samples) = model.samples() else {
            return Ok(());
        };
        let text = folded(samples, &self.chains);
        let written = file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", printable(&path.to_string_lossy())))
    }
}

impl Understanding {
    /// Whether the target is sampled.
    pub const fn is_sampling(&self) -> bool {
        self.sampling.is_some()
    }

    /// Hands the samples taken so far to the model.
    pub fn sample(&mut self) {
        if let Some(sampling) = &mut self.sampling {
            sampling.take(&mut self.resolver, &mut self.model);
        }
    }

    /// Pauses or resumes sampling.
    pub fn switch_sampling(&mut self, on: bool) {
        if let Some(sampling) = &mut self.sampling {
            sampling.switch(on);
        }
    }

    /// The folded stacks, one per line; `None` without sampling.
    pub fn folded(&self) -> Option<Vec<String>> {
        self.sampling.as_ref()?.folded(&self.model)
    }

    /// Writes the folded stacks to `file`.
    ///
    /// # Errors
    /// The file cannot be written; the error names `path`.
    pub fn write_folded(&self, file: &File, path: &Path) -> anyhow::Result<()> {
        match &self.sampling {
            Some(sampling) => sampling.write(file, path, &self.model),
            None => Ok(()),
        }
    }
}
