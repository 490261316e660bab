//! Finds NVRTC and its headers in an installed CUDA toolkit.
#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};

/// Environment variables that name a toolkit, in order of preference.
const VARIABLES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// The default installation folder.
const USUAL: &str = "/usr/local/cuda";

/// Folders of NVIDIA's files, in search order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolkit {
    /// Folders that may contain NVRTC.
    pub libraries: Vec<PathBuf>,
    /// Folders that may contain headers.
    pub headers: Vec<PathBuf>,
}

impl Toolkit {
    /// The folders that exist: in `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, then in `roots`, where a
    /// package manager may have installed a toolkit. Relative roots are left out, also those that a finder took from
    /// `CUDA_HOME`: what they mean changes with the working folder.
    #[must_use]
    pub fn find(roots: &[PathBuf]) -> Self {
        let named = VARIABLES.into_iter().filter_map(env::var_os).map(PathBuf::from);
        let roots = named.chain([PathBuf::from(USUAL)]).chain(roots.iter().cloned());
        let roots: Vec<PathBuf> = roots.filter(|root| root.is_absolute()).collect();
        Self { libraries: below(&roots, &["lib64", "lib"]), headers: below(&roots, &["include"]) }
    }

    /// These folders, followed by those of `other`.
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
