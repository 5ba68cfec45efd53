//! Reading of the environment that launchers set.

use super::*;

#[test]
fn how_many_ranks_there_are_is_what_the_environment_says() {
    let of = |text: &str| ranks_in(text.replace(' ', "\0").as_bytes());
    let open = "A=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4";
    assert_eq!(of(open), Some((4, true)));
    assert_eq!(of("PMI_SIZE=8 MPI_LOCALNRANKS=4"), Some((8, false)));
    assert_eq!(of("PMI_SIZE=8"), Some((8, false)));
    assert_eq!(of("PMI_SIZE=x"), None);
}

#[test]
fn ranks_are_what_the_environment_says() {
    let rank = |text: &str| rank_in(text.replace(' ', "\0").as_bytes());
    assert_eq!(rank("A=1 OMPI_COMM_WORLD_RANK=3 B=2"), Some(3));
    assert_eq!(ranks_of_mpich_in(b"A=B\0PMI_RANK=0\0PMI_SIZE=3\0"), Some(3));
    assert_eq!(ranks_of_mpich_in(b"PMI_RANK=0\0"), None);
    assert_eq!(rank("PMI_RANK=0"), Some(0));
    assert_eq!(rank("PMI_RANKS=4 X=PMI_RANK=5"), None);
    assert_eq!(rank("SLURM_PROCID=many"), None);
}

#[test]
fn ranks_of_open_mpi_are_counted_by_its_launcher_or_slurm() {
    let ranks = |text: &str| ranks_of_open_mpi_in(text.replace(' ', "\0").as_bytes());
    assert_eq!(
        ranks("OMPI_COMM_WORLD_SIZE=4 SLURM_STEP_NUM_TASKS=8"),
        Some(4)
    );
    assert_eq!(ranks("PMIX_RANK=1 SLURM_STEP_NUM_TASKS=8"), Some(8));
    assert_eq!(ranks("SLURM_STEP_NUM_TASKS=8"), None);
}

#[test]
fn jobs_are_what_the_environment_says() {
    let by = |text: &str, proxy| {
        let job = name_in(text.replace(' ', "\0").as_bytes(), || proxy)?;
        Some(String::from_utf8_lossy(&job).into_owned())
    };
    let job = |text: &str| by(text, None);
    assert_eq!(
        job("A=1 PMIX_NAMESPACE=42 SLURM_JOB_ID=7"),
        Some("42".into())
    );
    assert_eq!(job("SLURM_JOB_ID=7 SLURM_STEP_ID=0"), Some("7.0".into()));
    assert_eq!(job("SLURM_JOB_ID=7"), None);
    let of_hydra = by("SLURM_JOB_ID=7 SLURM_STEP_ID=0", Some(31));
    assert_eq!(of_hydra, Some("31".into()));
}
