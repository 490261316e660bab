//! Which compiler serves which device, with what, and what is kept on disk; by the same real compilers as `programs.rs`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tool;

use std::env;
use std::fs;
use std::process::Command;

use gpulend::compiler::{Choice, ImageKind, Program, Recipe, Target, Toolkit, compile, read_image};
use gpulend::hint::{CompileHint, Hint};
use gpulend::{CompileError, Error};
use tool::{CAPABILITY, Tool, clang, nvrtc, signatures, tools, variables};

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn clang_on_a_real_gpu_names_what_it_lacks() {
    let tool = clang();
    let compile_real = |text: &str, capability| {
        let ziglang = tool.ziglang.clone();
        let recipe = Recipe { choice: Choice::Clang, ziglang, ..Recipe::new(text) };
        compile(&recipe, Target { simulated: false, capability })
    };
    let sine = "__global__ void f(float *p) { *p = sinf(*p); }";
    let error = compile_real(sine, CAPABILITY).unwrap_err();
    assert!(error.to_string().contains("sinf"), "{error}");
    let error = Error::from(error);
    assert_eq!((error.code(), error.hint()), (715, Some(Hint::Compile(CompileHint::UseNvrtc))));
    let printing =
        "__global__ void f(float *p) { printf(\"%f\", *p); assert(*p > 0); *p = sqrtf(*p); }";
    assert_eq!(compile_real(printing, CAPABILITY).unwrap().compiler, "clang");
    let error = compile_real(printing, (6, 1)).unwrap_err();
    assert!(error.to_string().contains("6.1"), "{error}");
    assert_eq!(Error::from(error).code(), 714);
}

fn by_nvrtc(tool: &Tool, text: &str, capability: (i32, i32)) -> Result<Program, CompileError> {
    // Without headers of the toolkit.
    let toolkit = Toolkit { headers: Vec::new(), ..tool.toolkit.clone() };
    let recipe = Recipe { toolkit, ..Recipe::new(text) };
    compile(&recipe, Target { simulated: false, capability })
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn nvrtc_makes_machine_code_where_it_knows_the_device_and_ptx_where_not() {
    let tool = nvrtc();
    let text = "extern \"C\" __global__ void f(const float *a, int n) {}";
    let known = by_nvrtc(&tool, text, (9, 0)).unwrap();
    assert_eq!((known.kind, known.compiler), (ImageKind::Binary, "nvrtc"));
    assert_eq!(read_image(&known.image).unwrap().kind, ImageKind::Binary);
    assert!(!read_image(&known.image).unwrap().complete);
    // No device has this number; one that comes later may.
    let newer = by_nvrtc(&tool, text, (99, 0)).unwrap();
    assert_eq!(newer.kind, ImageKind::Ptx);
    assert_eq!(newer.image.last(), Some(&0));
    for program in [&known, &newer] {
        assert_eq!(signatures(program), ["f(const float* a, int n)"]);
    }
    // clang has no such variables.
    let managed =
        by_nvrtc(&tool, "__managed__ int both[3]; __global__ void f() { both[0]++; }", (9, 0));
    assert_eq!(variables(&managed.unwrap()), ["both int[3] 12 global"]);
    let error = by_nvrtc(&tool, text, (3, 5)).unwrap_err();
    assert!(error.to_string().contains("3.5"), "{error}");
    assert_eq!(Error::from(error).code(), 714);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn nvrtc_takes_the_kernels_that_tests_launch_on_hardware() {
    let tool = nvrtc();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kernels/corpus");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 20);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let program = tool.compile(&text, &[]);
        let program = program.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!program.kernels.is_empty(), "{}", file.display());
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn nvrtc_needs_no_headers_of_the_toolkit_for_what_c_has() {
    let tool = nvrtc();
    let names = [
        "assert.h",
        "cassert",
        "cfloat",
        "climits",
        "cmath",
        "cstddef",
        "cstdint",
        "cstdio",
        "cstdlib",
        "cstring",
        "cuda.h",
        "cuda_runtime.h",
        "float.h",
        "limits.h",
        "math.h",
        "stddef.h",
        "stdint.h",
        "stdio.h",
        "stdlib.h",
        "string.h",
    ];
    let included: String = names.iter().map(|name| format!("#include <{name}>\n")).collect();
    let text = included
        + r#"
        #if CUDA_VERSION < 11000
        #error
        #endif
        extern "C" __global__ void f(float *p, int32_t n, uint8_t *bytes, size_t size) {
            assert(n < INT_MAX && p != NULL);
            printf("%d %f\n", n, M_PI);
            p[0] = sinf(p[1]) + INFINITY + NAN + FLT_MAX + std::sqrt(p[2]) + offsetof(float4, z) + INT64_MAX;
            void *more = malloc(size);
            memcpy(bytes, more, 4);
            free(more);
        }"#;
    let program = by_nvrtc(&tool, &text, CAPABILITY).unwrap();
    assert_eq!(
        signatures(&program),
        ["f(float* p, int n, unsigned char* bytes, unsigned long long size)"]
    );
    assert_eq!(program.warnings, []);
    let error = by_nvrtc(&tool, "#include <cuda_fp16.h>\n", CAPABILITY).unwrap_err();
    assert_eq!(Error::from(error).hint(), Some(Hint::Compile(CompileHint::ToolkitHeaders)));
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn a_real_gpu_is_served_by_nvrtc_or_else_by_clang() {
    const ALONE: &str = "GPULEND_TEST_ALONE";
    // In a process of its own: in this one another test may have loaded NVRTC.
    if env::var_os(ALONE).is_none() {
        let done = Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_real_gpu_is_served_by_nvrtc_or_else_by_clang", "--ignored"])
            .env(ALONE, "1")
            .env_remove("LD_LIBRARY_PATH")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let (clang, nvrtc) = (clang(), nvrtc());
    let recipe = Recipe { ziglang: clang.ziglang, ..Recipe::new("__global__ void f(int *p) {}") };
    let real = Target { simulated: false, capability: CAPABILITY };
    // A toolkit of the system's is found without a folder.
    let listed = Command::new("ldconfig").arg("-p").output();
    if !listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).contains("libnvrtc.so")) {
        let only = Recipe { choice: Choice::Nvrtc, ..recipe.clone() };
        let error = Error::from(compile(&only, real).unwrap_err());
        let hint = Some(Hint::Compile(CompileHint::InstallNvrtc));
        assert_eq!((error.code(), error.hint()), (712, hint));
        assert_eq!(compile(&recipe, real).unwrap().compiler, "clang");
    }
    let found = Recipe { toolkit: nvrtc.toolkit, ..recipe };
    assert_eq!(compile(&found, real).unwrap().compiler, "nvrtc");
}

#[test]
fn nvidias_compiler_is_not_for_the_simulated_gpu() {
    let recipe = Recipe { choice: Choice::Nvrtc, ..Recipe::new("__global__ void f() {}") };
    let error = compile(&recipe, Target::SIMULATED).unwrap_err();
    assert_eq!(Error::from(error).code(), 716);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn names_that_cannot_be_shown_are_refused() {
    for tool in tools() {
        for file in ["", "a\nb.cu"] {
            let recipe = Recipe { file: file.to_owned(), ..Recipe::new("__global__ void f() {}") };
            let error = tool.compile_recipe(&recipe, &[]).unwrap_err();
            assert_eq!(Error::from(error).code(), 708);
        }
    }
}

/// Not a test by itself: `what_was_compiled_is_found_again` runs it in a process with a cache of its own.
#[test]
#[ignore = "run by another test"]
fn compile_for_the_cache() {
    let text = "template <class T> __global__ void f(T *p) {}\nextern \"C\" __global__ void g(int *p) {}\n";
    for tool in tools() {
        let program = tool.compile(text, &["f<float>"]).unwrap();
        println!(
            "told {:?} {:?} {:?}",
            program.compiler,
            signatures(&program),
            program.expressions
        );
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn what_was_compiled_is_found_again() {
    let folder = env::temp_dir().join(format!("gpulend-programs-{}", std::process::id()));
    let run = || {
        let done = Command::new(env::current_exe().unwrap())
            .args(["--exact", "compile_for_the_cache", "--ignored", "--nocapture"])
            .env("GPULEND_CACHE_DIR", &folder)
            .env_remove("GPULEND_CACHE")
            .output()
            .unwrap();
        assert!(done.status.success());
        let told = String::from_utf8(done.stdout).unwrap();
        let told: Vec<_> =
            told.lines().filter(|line| line.starts_with("told")).map(str::to_owned).collect();
        let files = fs::read_dir(folder.join("ptx"))
            .map(|listed| listed.flatten().map(|file| file.path()).collect());
        let mut files: Vec<_> = files.unwrap_or_default();
        files.sort();
        (told, files)
    };
    let first = run();
    // One for the image and one for the types.
    assert_eq!(first.1.len(), 2 * tools().len());
    assert_eq!(run(), first);
    for file in &first.1 {
        fs::write(file, b"gpulend-ptx-2 wrong").unwrap();
    }
    assert_eq!(run(), first);
    assert!(first.1.iter().all(|file| fs::read(file).unwrap().len() > 100));
    let _ = fs::remove_dir_all(&folder);
}
