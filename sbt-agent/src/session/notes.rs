//! Remarks for the user that the report will hold.

/// The remarks so far, in the order in which they came up.
#[derive(Debug, Default)]
pub struct Notes(Vec<String>);

impl Notes {
    /// Adds a remark.
    pub fn push(&mut self, note: impl Into<String>) {
        self.0.push(note.into());
    }

    /// Adds a remark unless there is the same one already.
    pub fn push_once(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// Adds several remarks.
    pub fn extend(&mut self, notes: impl IntoIterator<Item = String>) {
        self.0.extend(notes);
    }

    /// Adds those of several remarks that were not there before.
    pub fn extend_new(&mut self, notes: Vec<String>) {
        let (_, new): (Vec<_>, Vec<_>) = notes.into_iter().partition(|note| self.0.contains(note));
        self.0.extend(new);
    }

    /// Adds the error of something without which watching goes on.
    pub fn keep(&mut self, done: anyhow::Result<()>) {
        if let Err(error) = done {
            self.push(format!("{error:#}"));
        }
    }

    /// The remarks in the order in which they were made.
    pub fn all(&self) -> &[String] {
        &self.0
    }
}
