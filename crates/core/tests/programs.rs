//! Sources to images with signatures, by real compilers: clang as `GPULEND_TEST_ZIGLANG` names it, NVRTC as
//! `GPULEND_TEST_NVRTC` names its library. Tests that need them are ignored, and fail without them when they are asked for by
//! `--include-ignored`, as `make test-rust` does.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tool;

use gpulend::Error;
use gpulend::compiler::{ImageKind, Recipe, read_image};
use tool::{clang, signatures, tools, variables};

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn every_kind_of_parameter_is_typed() {
    const TEXT: &str = r#"
        #include <cuda_fp16.h>
        #include <cuda_bf16.h>
        #include <stdint.h>
        struct Particle { float position[3]; int kind; };
        enum class Mode : unsigned char { Fast, Exact };
        enum Plain : int { One, Two };
        extern "C" __global__ void vectorAdd(const float* __restrict__ a, const float *b, float * const c, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) c[i] = a[i] + b[i];
        }
        extern "C" __global__ void everything(Particle one, const Particle *many, float4 four, const double3 *three,
            __half half, __half2 *halves, const __nv_bfloat16 *brain, bool yes, char letter, signed char small,
            unsigned char byte, uint16_t word, int64_t wide, unsigned long long count, size_t size, volatile int *flag,
            void *any, float (*rows)[4], float **table, Mode mode, Plain plain) {}
        __global__ void over(float *p, int n) {}
        __global__ void over(double *p, int n) {}
        __global__ void chosen(Mode mode, const Mode *modes) {}
        __global__ void nothing() {}
        struct Empty {};
        __global__ void functor(Empty e, int n) {}
        namespace outer { namespace inner { __global__ void deep(Particle *p) {} } }
        #define KERNEL(name, type) extern "C" __global__ void name(type *values, type by) { *values *= by; }
        KERNEL(scale_float, float)
        KERNEL(scale_int, int)
    "#;
    for tool in tools() {
        let program = tool.compile(TEXT, &[]).unwrap();
        assert_eq!(
            signatures(&program),
            [
                "chosen(unsigned char mode, const Mode* modes)",
                "everything(Particle one, const Particle* many, float4 four, const double3* three, __half half, \
                 __half2* halves, const __nv_bfloat16* brain, bool yes, char letter, signed char small, \
                 unsigned char byte, unsigned short word, long long wide, unsigned long long count, \
                 unsigned long long size, int* flag, void* any, float (*)[4] rows, float** table, \
                 unsigned char mode, int plain)",
                "functor(Empty e, int n)",
                "nothing()",
                "outer::inner::deep(Particle* p)",
                "over(double* p, int n)",
                "over(float* p, int n)",
                "scale_float(float*, float)",
                "scale_int(int*, int)",
                "vectorAdd(const float* a, const float* b, float* c, int n)",
            ]
        );
        let everything = program.kernels.iter().find(|found| &*found.name == "everything").unwrap();
        let sizes: Vec<_> =
            everything.parameters.iter().take(5).map(|found| (found.size, found.align)).collect();
        assert_eq!(sizes, [(16, 4), (8, 8), (16, 16), (8, 8), (2, 2)]);
        assert!(program.complete && program.kernels.iter().all(|kernel| kernel.is_typed()));
        let image = String::from_utf8_lossy(&program.image);
        assert!(!image.contains("gpulend_probe") && !image.contains("gpulend_name"));
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn instances_are_compiled_when_they_are_asked_for() {
    const TEXT: &str = r"
        template <class T> struct Traits { using type = T *; };
        enum Mode : short { A, B };
        template <class T> __global__ void scale(typename Traits<T>::type values, T by, Mode mode) { *values *= by; }
        namespace ns { template <int N, class T = float> __global__ void fill(T *values) { *values = N; } }
        __global__ void plain(int *p) {}
        __global__ void twice(int *p) {}
        __global__ void twice(float *p) {}
        using namespace ns;
    ";
    for tool in tools() {
        let asked = [
            "scale<float>",
            " &scale< double >",
            "fill<3>",
            "ns::fill<4, unsigned char>",
            "plain",
            "twice",
        ];
        let program = tool.compile(TEXT, &asked).unwrap();
        assert_eq!(
            signatures(&program),
            [
                "ns::fill<3, float>(float* values)",
                "ns::fill<4, unsigned char>(unsigned char* values)",
                "plain(int* p)",
                "scale<double>(double* values, double by, short mode)",
                "scale<float>(float* values, float by, short mode)",
                "twice(float* p)",
                "twice(int* p)",
            ]
        );
        let expressions: Vec<_> =
            program.expressions.iter().map(|(name, symbol)| (&**name, &**symbol)).collect();
        assert_eq!(
            expressions,
            [
                ("scale<float>", "_Z5scaleIfEvN6TraitsIT_E4typeES1_4Mode"),
                (" &scale< double >", "_Z5scaleIdEvN6TraitsIT_E4typeES1_4Mode"),
                ("fill<3>", "_ZN2ns4fillILi3EfEEvPT0_"),
                ("ns::fill<4, unsigned char>", "_ZN2ns4fillILi4EhEEvPT0_"),
                ("plain", "_Z5plainPi"),
            ]
        );
        assert!(!String::from_utf8_lossy(&program.image).contains("gpulend_"));
        assert!(tool.compile(TEXT, &[]).unwrap().kernels.len() == 3);
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn a_name_that_cannot_be_compiled_is_named() {
    const TEXT: &str = "template <class T> __global__ void scale(T *p) { p->change(); }\n\
        struct Good { __device__ void change() {} };\n\
        __device__ void helper(int) {} template <class T> __device__ void aid(T *p) {}\n";
    for tool in tools() {
        assert_eq!(tool.compile(TEXT, &["scale<Good>"]).unwrap().kernels.len(), 1);
        for wrong in ["scale<int>", "scle<float>", "scale<Goo>", "scale<>", "ns::scale<Good>"] {
            let error = tool.compile(TEXT, &["scale<Good>", wrong]).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("{wrong} was asked for")), "{text}");
            assert!(!text.contains("gpulend_") && !text.contains("nv_mangled_name"), "{text}");
            assert!(!error.diagnostics().is_empty());
            assert_eq!(Error::from(error).code(), 710);
        }
        let error = tool.compile(TEXT, &["scale<int>"]).unwrap_err();
        let first = &error.diagnostics()[0];
        assert_eq!((&*first.file, first.line), ("kernel.cu", 1), "{error}");
        for wrong in ["helper", "nothing"] {
            let error = tool.compile(TEXT, &["scale<Good>", wrong]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(wrong) && text.contains("scale<Good>"), "{text}");
            assert_eq!(Error::from(error).code(), 711);
        }
        // A template of a function that is no kernel: NVRTC says so itself.
        let error = tool.compile(TEXT, &["scale<Good>", "aid<int>"]).unwrap_err();
        assert!(error.to_string().contains("aid<int>"), "{error}");
        assert!(matches!(Error::from(error).code(), 710 | 711));
        let error = tool.compile(TEXT, &["scale<int>; int x"]).unwrap_err();
        assert_eq!(Error::from(error).code(), 708);
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn variables_have_types_and_sizes() {
    const TEXT: &str = r#"
        struct Config { int a; double b; };
        __device__ int counter = 3;
        __device__ float grid[4][5];
        __constant__ float table[3];
        __device__ float4 quads[2];
        __device__ Config config;
        __device__ float *pointer;
        __device__ unsigned long long big;
        namespace ns { __device__ bool flag; }
        static __device__ int hidden;
        static __constant__ float scales[2];
        __constant__ const float fixed[2] = {1, 2};
        extern "C" __device__ double total;
        __device__ double total;
        extern "C" __global__ void use(float *p) {
            counter++; grid[1][2] += table[1] + hidden + scales[1] + fixed[threadIdx.x]; quads[1].x = config.a; pointer = p; big++; ns::flag = true; total += 1;
            extern __shared__ float shared[]; shared[0] = 1; *p = shared[0];
        }
    "#;
    for tool in tools() {
        let program = tool.compile(TEXT, &[]).unwrap();
        assert_eq!(
            variables(&program),
            [
                "big unsigned long long 8 global",
                "config Config 16 global",
                "counter int 4 global",
                "fixed float[2] 8 constant",
                "grid float[4][5] 80 global",
                "hidden int 4 global",
                "ns::flag bool 1 global",
                "pointer float* 8 global",
                "quads float4[2] 32 global",
                "scales float[2] 8 constant",
                "table float[3] 12 constant",
                "total double 8 global",
            ]
        );
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn what_has_no_linkage_does_not_break_a_program() {
    const TEXT: &str = r#"
        static __device__ int hidden;
        __constant__ const float fixed[2] = {1, 2};
        namespace { __device__ int unnamed; __global__ void inner(int *p) { *p = unnamed++; } }
        static __global__ void outer(int *p) { *p = hidden++ + fixed[threadIdx.x]; }
        namespace ns { extern "C" __global__ void in_namespace(int *p, float x) { __shared__ int s; s = *p; *p = s; } }
        __global__ void local(int *p) { static __device__ int calls; *p = calls++; }
        __global__ void text(int *p) { printf("%d\n", *p); }
    "#;
    for tool in tools() {
        let program = tool.compile(TEXT, &[]).unwrap();
        let shown = signatures(&program);
        assert_eq!(shown.len(), 5);
        for kernel in ["inner(int* p)", "outer(int* p)", "local(int* p)", "text(int* p)"] {
            assert!(shown.iter().any(|found| found == kernel), "{kernel}: {shown:?}");
        }
        assert!(shown.iter().any(|found| found.starts_with("in_namespace(")), "{shown:?}");
        assert!(
            !variables(&program).iter().any(|found| found.contains('$')),
            "{:?}",
            variables(&program)
        );
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn kernels_of_headers_are_typed_and_their_mistakes_are_theirs() {
    let header = |text: &str| vec![("deep/shared.h".to_owned(), text.to_owned())];
    let right = header(
        "#pragma once\nextern \"C\" __global__ void from_header(const int *values, int n) {}\n",
    );
    let wrong = header("#pragma once\n\n__global__ void broken(int *p) { *p = missing; }\n");
    let options = ["-DVALUE=3", "-O3", "--std=c++17", "-lineinfo"].map(str::to_owned);
    let text = "#include \"deep/shared.h\"\n__device__ int number = VALUE;\n";
    for tool in tools() {
        let recipe = |headers: &[(String, String)]| Recipe {
            headers: headers.to_owned(),
            options: options.to_vec(),
            file: "dir/my kernel.cu".to_owned(),
            ..Recipe::new(text)
        };
        let program = tool.compile_recipe(&recipe(&right), &[]).unwrap();
        assert_eq!(signatures(&program), ["from_header(const int* values, int n)"]);
        assert_eq!(variables(&program), ["number int 4 global"]);
        let error = tool.compile_recipe(&recipe(&wrong), &[]).unwrap_err();
        let first = &error.diagnostics()[0];
        assert!(first.file.ends_with("deep/shared.h"), "{error}");
        assert_eq!((first.line, first.column), (3, 39), "{error}");
        assert!(first.text.contains("missing"), "{error}");
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn mistakes_are_told_with_the_lines_of_the_source() {
    for tool in tools() {
        let recipe = Recipe {
            file: "mine.cu".to_owned(),
            ..Recipe::new("\n__global__ void f(int *p) {\n    *p = x;\n}\n")
        };
        let error = tool.compile_recipe(&recipe, &["scale<float>"]).unwrap_err();
        let first = &error.diagnostics()[0];
        assert_eq!((&*first.file, first.line, first.column), ("mine.cu", 3, 10), "{error}");
        assert_eq!(Error::from(error).code(), 704);
        let text = "__global__ void f(int *p) {}\nint main() { f<<<1, 1>>>(0); }\n";
        let error = tool.compile(text, &[]).unwrap_err();
        assert!(error.to_string().contains("launches a kernel"), "{error}");
        assert_eq!(Error::from(error).code(), 705);
        let options = vec!["-fplugin=x.so".to_owned()];
        let recipe = Recipe { options, ..Recipe::new("__global__ void f() {}") };
        let error = tool.compile_recipe(&recipe, &[]).unwrap_err();
        assert!(error.to_string().contains("-fplugin=x.so"), "{error}");
        assert_eq!(Error::from(error).code(), 703);
        let text = "__global__ void f(int *p) { int unused_one; *p = 1; }\n";
        let options = vec!["-Wall".to_owned()];
        let recipe = Recipe { options, ..Recipe::new(text) };
        let program = tool.compile_recipe(&recipe, &[]).unwrap();
        assert!(
            program
                .warnings
                .iter()
                .any(|found| found.text.contains("unused_one") && found.line == 1)
        );
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn warnings_that_count_as_errors_are_about_the_source_only() {
    let text = "static __device__ int hidden;\ntemplate <class T> __global__ void f(T *p) { *p = T(hidden++); }\n\
        extern \"C\" __global__ void g(int *p) { *p = 0; }\n";
    let options =
        ["-Wall", "-Wextra", "-Wold-style-cast", "-Wunused-template", "-Werror"].map(str::to_owned);
    for tool in tools() {
        let recipe = Recipe { options: options.to_vec(), ..Recipe::new(text) };
        let program = tool.compile_recipe(&recipe, &["f<float>"]).unwrap();
        assert_eq!(signatures(&program), ["f<float>(float* p)", "g(int* p)"]);
        assert_eq!(variables(&program), ["hidden int 4 global"]);
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn ptx_is_read_back_with_the_types_of_its_symbols() {
    let tool = clang();
    let text = "extern \"C\" __global__ void c(const float *a, int n) {}\n__global__ void cpp(const float *a, int n) {}\n\
        __device__ int counter;\n";
    let program = tool.compile(text, &[]).unwrap();
    assert_eq!(program.kind, ImageKind::Ptx);
    assert_eq!(program.image.last(), Some(&0));
    let image = read_image(&program.image).unwrap();
    assert_eq!(signatures(&image), ["c(<8 bytes>, <4 bytes>)", "cpp(const float*, int)"]);
    assert_eq!(variables(&image), ["counter ? 4 global"]);
    assert_eq!((image.kind, image.compiler, image.complete), (ImageKind::Ptx, "image", true));
    assert_eq!(image.image, program.image);
}

#[test]
fn what_is_no_image_is_refused_by_name() {
    for garbage in
        [&b""[..], b"\x7fELF", b"hello", b"__global__ void f() {}", b"\0\0\0", &[0xff; 1000]]
    {
        let error = read_image(garbage).unwrap_err();
        assert_eq!(Error::from(error).code(), 713);
    }
}
