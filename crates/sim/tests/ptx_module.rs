//! Modules, functions and variables are read with all that belongs to them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ptx_support;

use gpulend_sim::ptx::ast::{
    AddressOf, Linkage, Module, Named, Op, Param, Source, Space, Type, Variable,
};
use gpulend_sim::ptx::parse;
use ptx_support::{body, int};

fn read(text: &str) -> Module {
    parse(&format!(".version 8.4\n.target sm_70, debug\n.address_size 64\n{text}"))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn variable(text: &str) -> Variable {
    read(text).variables.pop().unwrap()
}

#[test]
fn the_beginning() {
    let module = read(
        "/* nothing */ .file 1 \"a b.cu\", 123, 45 .section .debug_str { info: .b8 1 .b8 \"}\" }",
    );
    assert_eq!((module.version, module.target), ((8, 4), 70));
    assert_eq!(module.files[&1], "a b.cu");
}

#[test]
fn variables() {
    assert_eq!(
        variable(".visible .global .align 16 .f32 x[2][3] = {{1.5}, {0f40000000, 3.0, 4.0}};"),
        Variable {
            name: "x".to_owned(),
            space: Space::Global,
            ty: Type::F32,
            align: 16,
            bytes: 24,
            initial: [1.5_f32, 0.0, 0.0, 2.0, 3.0, 4.0]
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect(),
            addresses: Vec::new(),
            linkage: Linkage::Visible,
            line: 4,
        }
    );
    assert_eq!(variable(".const .b16 x[] = {1, -2, 3};").bytes, 6);
    assert_eq!(variable(".const .b16 x[] = {1, -2, 3};").initial, [1, 0, 0xfe, 0xff, 3, 0]);
    assert_eq!(variable(".global .s8 x[3] = {-1};").initial, [0xff]);
    let vector = variable(".global .v4 .f32 x[2];");
    assert_eq!((vector.bytes, vector.align), (32, 16));
    let open = variable(".extern .shared .align 4 .b8 x[];");
    assert_eq!((open.bytes, open.linkage, open.align), (0, Linkage::Extern, 4));
    assert_eq!(variable(".global .f64 x = 0d3FF0000000000000;").initial, 1.0_f64.to_le_bytes());
    assert_eq!(read(".extern .global .b32 x; .global .b32 x = 3;").variables.len(), 1);
}

#[test]
fn addresses_in_variables() {
    let module = read(".global .u64 x[4] = {1, generic(y)+8, y, z-4}; .global .b64 y, z = x;");
    let at = |at, variable, addend, generic| {
        let of = Named::Variable(variable);
        AddressOf { at, of, addend, generic }
    };
    assert_eq!(
        module.variables[0].addresses,
        [at(8, 1, 8, true), at(16, 1, 0, false), at(24, 2, -4, false)]
    );
    assert_eq!(module.variables[0].initial.len(), 32);
    assert_eq!(module.variables[2].addresses, [at(0, 0, 0, false)]);
    let module = read(".const .u64 x[2] = {generic(g), f}; .func f() { ret; } .func g();");
    let of = |of: usize, at, generic| AddressOf { at, of: Named::Function(of), addend: 0, generic };
    assert_eq!(module.variables[0].addresses, [of(1, 0, true), of(0, 8, false)]);
}

#[test]
fn parameters_lie_where_the_driver_puts_them() {
    let module = read(
        ".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 1 b, .param .align 4 .b8 c[6], .param .u16 d,
        .param .align 16 .b8 e[16]) .reqntid 32, 4 .maxnreg 64 .minnctapersm 2 { }",
    );
    let function = &module.functions[0];
    let param = |name: &str, ty, align, bytes, offset| Param {
        name: name.to_owned(),
        ty,
        align,
        bytes,
        offset,
    };
    assert_eq!(
        function.params,
        [
            param("a", Type::U8, 1, 1, 0),
            param("b", Type::U64, 8, 8, 8),
            param("c", Type::B8, 4, 6, 16),
            param("d", Type::U16, 2, 2, 22),
            param("e", Type::B8, 16, 16, 32),
        ]
    );
    assert_eq!((function.max_threads, function.exact_threads), (Some([32, 4, 1]), true));
    assert!(function.entry);
    assert_eq!(function.linkage, Linkage::Visible);
}

#[test]
fn a_declaration_and_its_definition_are_one_function() {
    let module = read(
        ".extern .func (.param .b32 r) f(.param .b64 a) .noreturn;
        .visible .func (.param .b32 s) f(.param .b64 b) { ret; }",
    );
    assert_eq!(module.functions.len(), 1);
    assert_eq!(module.functions[0].params[0].name, "b");
    assert_eq!(module.functions[0].linkage, Linkage::Visible);
    assert!(module.functions[0].body.is_some());
}

#[test]
fn names_of_inner_scopes_hide_outer_ones_and_end_with_them() {
    let body = body(
        ".reg .b32 %r<3>; mov.u32 %r1, 1; { .reg .b64 %r<3>; mov.u64 %r1, 2; } mov.u32 %r1, 3;
        { LOOP: bra LOOP; } { LOOP: bra LOOP; bra OUT; } OUT: ret;",
    );
    let registers: Vec<u32> = body.statements[..3]
        .iter()
        .map(|statement| match statement.op {
            Op::Move { to, .. } => to.0,
            _ => panic!("{statement:?}"),
        })
        .collect();
    assert_eq!(registers, [16, 17, 16]);
    assert_eq!(body.registers[17].ty, Type::B64);
    assert_eq!(body.labels, [3, 4, 6]);
}

#[test]
fn a_line_of_zero_is_the_last_known_of_its_file() {
    let body = body(
        "ret; .loc 1 7 3 ret; .loc 2 9 1, function_name info+4, inlined_at 1 8 2 ret; .loc 1 0 0 ret; .loc 3 0 0 ret;",
    );
    let sources: Vec<Option<Source>> =
        body.statements.iter().map(|statement| statement.source).collect();
    let source = |file, line, column| Some(Source { file, line, column });
    assert_eq!(sources, [None, source(1, 7, 3), source(2, 9, 1), source(1, 7, 3), None]);
}

#[test]
fn text_in_the_style_of_the_manual() {
    let module = read(
        "// Adds one to each.
        .visible .entry add_one ( .param .u64 data ,
                                  .param .u32 count )
        {
            .reg .u32   r1, r2 , r3;
            .reg .u64   address;
            .reg .pred  done;
            .local .align 8 .b8 spill [ 16 ] ;
            .pragma \"nounroll\";

            ld.param.u64    address, [ data ];
            ld.param.u32    r3, [count];
            mov.u32         r1, %tid.x;
            setp.ge.u32     done, r1, r3;
      @done bra             END;
            mad.wide.u32    address, r1,
                            4,
                            address;
            ld.global.u32   r2, [address];
            add.u32         r2, r2, 1;
            st.global.u32   [address], r2;
        END:
            ret;
        }",
    );
    let body = module.functions[0].body.as_ref().unwrap();
    assert_eq!(body.statements.len(), 10);
    assert_eq!(body.labels, [9]);
    assert!(matches!(body.statements[7].op, Op::Binary { right, .. } if right == int(1)));
    assert_eq!(body.statements[0].line, 14);
}
