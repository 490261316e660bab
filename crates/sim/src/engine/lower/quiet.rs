//! Hooks that preserve all registers.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::{OURS, at};

/// The signature of a hook that preserves all registers.
pub(in crate::engine) fn quiet_signature() -> Signature {
    let mut signature = Signature::new(CallConv::PreserveAll);
    signature.params = vec![AbiParam::new(I64); 4];
    signature
}

/// Writes the code of such a hook.
pub(in crate::engine) fn lower_quiet(
    function: &mut ir::Function,
    scratch: &mut FunctionBuilderContext,
    config: TargetFrontendConfig,
    hook: usize,
) {
    let mut builder = FunctionBuilder::new(function, scratch);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let arguments = builder.block_params(entry).to_vec();
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params = vec![AbiParam::new(I64); 4];
    signature.returns = vec![AbiParam::new(I64)];
    let signature = builder.import_signature(signature);
    let callee = builder.ins().iconst(I64, hook as i64);
    let call = builder.ins().call_indirect(signature, callee, &arguments);
    let answered = builder.inst_results(call)[0];
    builder.ins().store(OURS, answered, arguments[0], at::ANSWER);
    builder.ins().return_(&[]);
    builder.seal_all_blocks();
    builder.finalize(config);
}
