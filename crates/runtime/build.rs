//! Names the library as its clients' loaders will look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgpulend_rt.so");
    // Thread-local state of ours and handles of the driver outlive a client's dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
