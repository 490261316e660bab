//! What clang writes is read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use gpulend_sim::ptx::ast::{Function, Module, Named, Op, Space};
use gpulend_sim::ptx::parse;

fn folder() -> PathBuf {
    std::env::var_os("PTX_CORPUS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/ptx"), PathBuf::from)
}

fn texts() -> Vec<(String, String)> {
    let mut texts: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn what_clang_writes_is_read() {
    let texts = texts();
    for (name, text) in &texts {
        let module = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(module.functions.iter().any(|function| function.entry), "{name}");
        assert!(module.functions.iter().all(is_whole), "{name}");
    }
    assert!(texts.len() >= 14, "{} texts were read", texts.len());
}

#[test]
fn a_virtual_function_becomes_an_indirect_call_and_its_table_has_its_address() {
    for name in ["virtual_O0.ptx", "virtual_O3.ptx"] {
        let module = read(name);
        let statements = module.functions.iter().filter_map(|function| function.body.as_ref());
        let calls = statements.flat_map(|body| &body.statements).filter_map(|one| match &one.op {
            Op::CallIndirect { returns, arguments, .. } => Some((returns.len(), arguments.len())),
            _ => None,
        });
        assert_eq!(calls.collect::<Vec<_>>(), [(1, 2), (1, 2)], "{name}");
        let table = module.variables.iter().find(|variable| variable.name == "_ZTV1B").unwrap();
        let Named::Function(number) = table.addresses[0].of else { panic!("{name}") };
        assert_eq!((table.addresses[0].at, &*module.functions[number].name), (16, "_ZN1B1fEi"));
    }
}

/// Whether all that is numbered is there.
fn is_whole(function: &Function) -> bool {
    let Some(body) = &function.body else { return true };
    body.statements.iter().all(|statement| match &statement.op {
        Op::Branch { to } => {
            body.labels.get(to.0 as usize).is_some_and(|at| *at <= body.statements.len())
        }
        Op::BranchTable { to, .. } => to.iter().all(|to| (to.0 as usize) < body.labels.len()),
        Op::Move { to, .. } => (to.0 as usize) < body.registers.len(),
        _ => true,
    })
}

fn read(name: &str) -> Module {
    let (_, text) = texts().into_iter().find(|(found, _)| found == name).unwrap();
    parse(&text).unwrap()
}

fn function<'m>(module: &'m Module, name: &str) -> &'m Function {
    module.functions.iter().find(|function| function.name == name).unwrap()
}

#[test]
fn a_switch_becomes_a_table_of_branches() {
    let module = read("switch_O3.ptx");
    let body = function(&module, "_Z4pickii").body.as_ref().unwrap();
    let tables: Vec<usize> = body
        .statements
        .iter()
        .filter_map(|statement| match &statement.op {
            Op::BranchTable { to, .. } => Some(to.len()),
            _ => None,
        })
        .collect();
    assert_eq!(tables, [9]);
}

#[test]
fn a_function_that_was_declared_first_is_in_the_module_once() {
    let module = read("structs_O0.ptx");
    let found: Vec<_> =
        module.functions.iter().filter(|function| function.name == "_ZN3AccIfE3addEf").collect();
    assert_eq!(found.len(), 1);
    assert!(found[0].body.is_some());
}

#[test]
fn statements_know_the_line_they_come_from() {
    let module = read("device_O3.ptx");
    assert_eq!(module.files[&1], "./device.cu");
    let body = function(&module, "dev").body.as_ref().unwrap();
    assert!(body.statements.iter().all(|statement| {
        statement.source.is_some_and(|source| source.file == 1 && source.line == 7)
    }));
}

#[test]
fn variables_begin_with_what_the_source_says() {
    let module = read("shared_O3.ptx");
    let number = |name: &str| module.variables.iter().position(|found| found.name == name).unwrap();
    let variable = |name: &str| &module.variables[number(name)];
    assert_eq!(variable("counter").initial, 7_u32.to_le_bytes());
    assert_eq!(variable("table").initial[4..8], 2.5_f32.to_le_bytes());
    assert_eq!(variable("zeros").bytes, 400);
    assert!(variable("zeros").initial.is_empty());
    assert_eq!(variable("dyn").bytes, 0);
    assert_eq!(variable("dyn").space, Space::Shared);
    let address = &variable("parr").addresses[0];
    assert_eq!(
        (address.at, address.of, address.addend, address.generic),
        (0, Named::Variable(number("arr")), 8, true)
    );
    assert_eq!(variable("ptrs").addresses[1].at, 16);
    let kernel = function(&module, "red");
    assert_eq!(kernel.max_threads, Some([256, 1, 1]));
    let shared: Vec<u64> = kernel
        .body
        .as_ref()
        .unwrap()
        .variables
        .iter()
        .filter(|variable| variable.space == Space::Shared)
        .map(|variable| variable.bytes)
        .collect();
    assert_eq!(shared, [1024, 4]);
}
