//! Uprobes and tracepoints as a source of events.

use std::sync::Arc;

use anyhow::Context as _;
use sbt_common::{Code, Rule};

use super::{Ebpf, sleeps::Sleeps};
use crate::kernel::bpf::ProgramKind;
use crate::source::{
    Baselines, Measurement, Sink, Source, Totals,
    abilities::{
        Adding, Callers, Choosing, Condvars, Departures, Futexes, Locks, Scope, Scoping, Silencing,
        Waited,
    },
};
use sbt_engine::{
    choices::States,
    counters::{Counter, Plan},
};
use sbt_program::files::ProbedFile;

impl Source for Ebpf {
    fn name(&self) -> &'static str {
        "ebpf"
    }

    fn method(&self) -> String {
        match self.loaded.uprobes {
            ProgramKind::UprobeMulti => "uprobe_multi".into(),
            _ => "perf uprobes".into(),
        }
    }

    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        Self::start(self, sink, time_ns, baselines)
    }

    fn stop(&mut self) -> anyhow::Result<Totals> {
        Self::stop(self)
    }

    fn lost(&self) -> u64 {
        Self::lost(self)
    }

    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        Self::attach(self, files)
    }

    fn measure_costs(&self) -> Measurement {
        Self::measure_costs(self)
    }

    fn states(&self) -> States {
        Self::states(self)
    }

    fn counters(&self) -> &Plan {
        Self::counters(self)
    }

    fn has_children(&self) -> bool {
        Self::has_children(self)
    }

    fn follow(&mut self, process: u32) -> anyhow::Result<()> {
        Ok(Self::follow(self, process)?)
    }

    fn pause(&mut self) {
        Self::pause(self);
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        Self::resume(self)
    }

    fn departures(&mut self) -> Option<&mut dyn Departures> {
        Some(self)
    }

    fn condvars(&mut self) -> Option<&mut dyn Condvars> {
        Some(self)
    }

    fn futexes(&mut self) -> Option<&mut dyn Futexes> {
        Some(self)
    }

    fn silencing(&self) -> Option<&dyn Silencing> {
        Some(self)
    }

    fn locks(&self) -> Option<&dyn Locks> {
        Some(self)
    }

    fn callers(&mut self) -> Option<&mut dyn Callers> {
        Some(self)
    }

    fn adding(&mut self) -> Option<&mut dyn Adding> {
        Some(self)
    }

    fn scoping(&mut self) -> Option<&mut dyn Scoping> {
        Some(self)
    }

    fn sleeps(&mut self) -> Option<Sleeps> {
        Self::sleeps(self)
    }

    fn choosing(&mut self) -> Option<&mut dyn Choosing> {
        Some(self)
    }
}

impl Departures for Ebpf {
    fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        Self::set_departures(self, on)
    }
}

impl Condvars for Ebpf {
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        Self::set_condvars(self, on)
    }
}

impl Futexes for Ebpf {
    fn set_futexes(&mut self, on: bool) -> anyhow::Result<()> {
        Self::set_futexes(self, on)
    }
}

impl Silencing for Ebpf {
    fn silence(&self, key: u64, until_ns: u64) -> anyhow::Result<()> {
        Ok(Self::silence(self, key, until_ns)?)
    }

    fn passed(&self) -> u64 {
        Self::passed(self)
    }
}

impl Locks for Ebpf {
    fn locks(&self) -> anyhow::Result<Waited> {
        Ok(Self::locks(self)?)
    }

    fn clear_locks(&self, process: Option<u32>) -> anyhow::Result<()> {
        Ok(Self::clear_locks(self, process)?)
    }
}

impl Callers for Ebpf {
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        Self::learn(self, changes)
    }
}

impl Adding for Ebpf {
    fn add(&mut self, file: &Arc<ProbedFile>) -> anyhow::Result<()> {
        Self::attach(self, std::slice::from_ref(file))
    }

    fn withdraw(&mut self, file: &Arc<ProbedFile>) -> anyhow::Result<()> {
        Self::withdraw(self, file)
    }
}

impl Scoping for Ebpf {
    fn scope(&self) -> Scope {
        Self::scope(self)
    }

    fn set_scope(&mut self, scope: Scope) {
        Self::set_scope(self, scope);
    }

    fn widen(&mut self) -> anyhow::Result<()> {
        Self::widen(self)
    }

    fn widen_for_children(&mut self) -> anyhow::Result<()> {
        Self::widen_for_children(self)
    }

    fn renew(&mut self) -> anyhow::Result<()> {
        Self::renew(self)
    }
}

impl Choosing for Ebpf {
    fn choose(&mut self, counters: &[Counter]) -> anyhow::Result<Vec<String>> {
        self.choose_counters(counters).context("choosing counters")
    }
}
