//! Where an installed CUDA keeps NVRTC and its headers.
#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};

/// What names an installed CUDA; the first comes first.
const VARIABLES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// Where it is installed if nothing is said.
const USUAL: &str = "/usr/local/cuda";

/// Folders of NVIDIA's files, each in the order in which it is searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolkit {
    /// In which NVRTC may lie.
    pub libraries: Vec<PathBuf>,
    /// In which headers may lie.
    pub headers: Vec<PathBuf>,
}

impl Toolkit {
    /// The folders that are there: below `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, then below `roots`, as the packages of
    /// a language keep theirs.
    #[must_use]
    pub fn find(roots: &[PathBuf]) -> Self {
        let named = VARIABLES.into_iter().filter_map(env::var_os).map(PathBuf::from);
        let named = named.filter(|root| root.is_absolute()).chain([PathBuf::from(USUAL)]);
        let roots: Vec<PathBuf> = named.chain(roots.iter().cloned()).collect();
        Self { libraries: below(&roots, &["lib64", "lib"]), headers: below(&roots, &["include"]) }
    }

    /// These folders, then those of another.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.libraries.extend(other.libraries);
        self.headers.extend(other.headers);
        self
    }
}

fn below(roots: &[PathBuf], parts: &[&str]) -> Vec<PathBuf> {
    let folders = roots.iter().flat_map(|root| parts.iter().map(|part| root.join(part)));
    folders.filter(|folder| Path::is_dir(folder)).collect()
}
