//! Files that several resolvers share: a file is read once, whichever resolver meets it first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{file_id::FileId, files::ProbedFile, wanted::Wanted};

/// Files that were read and searched for the functions that the user names.
#[derive(Clone, Default)]
pub struct SharedFiles {
    pub(super) wanted: Arc<Wanted>,
    read: Arc<Mutex<HashMap<FileId, Arc<ProbedFile>>>>,
}

impl SharedFiles {
    /// No files yet. Files that are added later are searched for `wanted`.
    pub fn new(wanted: Arc<Wanted>) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    pub(super) fn find(&self, id: FileId) -> Option<Arc<ProbedFile>> {
        // The map is whole after each operation.
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.get(&id).cloned()
    }

    pub(super) fn add(&self, file: &Arc<ProbedFile>) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(file.id, Arc::clone(file));
    }
}
