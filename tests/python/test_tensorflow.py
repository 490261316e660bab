"""TensorFlow on the CPU: immutable tensors in, aligned row-major memory out, the rest by name."""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import textwrap

import gpulend
import numpy as np
import pytest
from conftest import need

tf = need("tensorflow")
TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
)


@pytest.fixture(autouse=True)
def _on_the_cpu():
    """Keep tensors on the host, where a build with a GPU would put them there."""
    with tf.device("/CPU:0"):
        yield


def aligned(count, dtype="float32", shift=0):
    """Return zeros that begin `shift` bytes after a multiple of 64."""
    dtype = np.dtype(dtype)
    raw = np.zeros(count * dtype.itemsize + 128, np.uint8)
    start = -raw.ctypes.data % 64 + shift
    return raw[start : start + count * dtype.itemsize].view(dtype)


def bits(dtype):
    """Return NumPy's type of a name, ml_dtypes' too."""
    return np.dtype(getattr(need("ml_dtypes"), dtype, dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 4)])
def test_a_tensor_is_borrowed_where_it_lies(dtype, shape):
    """The same address, type and values, and read-only: nobody may write a tensor."""
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(bits(dtype))
    tensor = tf.constant(values)
    lease = gpulend.borrow(tensor)
    assert (lease.shape, lease.dtype.name, lease.device) == (shape, dtype, "cpu")
    assert lease.readonly
    if shape and values.size:
        # `numpy()` is a copy of what this returns.
        assert lease.address == tensor._numpy().ctypes.data
    assert lease.lend("numpy").tobytes() == values.tobytes()
    assert not lease.lend("numpy").flags.writeable
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.copy_from(values)


def test_a_tensor_tells_base_and_offset():
    """What TensorFlow itself does not say: where a tensor lies, and in what."""
    tensor = tf.range(100, dtype=tf.float32)
    passport = gpulend.describe(tensor)
    assert passport.address == gpulend.borrow(tensor).address
    assert passport.base + passport.offset == passport.address
    assert 0 <= passport.offset <= passport.size - 400
    assert (passport.memory, passport.device) == ("host", "cpu")


def test_a_tensor_stays_while_it_is_lent():
    """The capsule keeps the memory, not the tensor."""
    lease = gpulend.borrow(tf.range(1000, dtype=tf.float32) + 1)
    gc.collect()
    noise = [tf.zeros(1000) for _ in range(50)]
    assert np.array_equal(lease.lend("numpy"), np.arange(1, 1001, dtype=np.float32))
    del noise


@pytest.mark.parametrize("dtype", TYPES)
def test_memory_is_lent_without_a_copy(dtype):
    """The tensor reads what was lent, though TensorFlow computes on the memory itself."""
    memory = aligned(48, bits(dtype))
    memory[:] = np.arange(48).astype(bits(dtype))
    tensor = gpulend.lend(memory.reshape(6, 8), "tensorflow")
    assert (tensor.shape, tensor.dtype.name) == ((6, 8), dtype)
    assert gpulend.borrow(tensor).address == memory.ctypes.data
    assert tensor.numpy().tobytes() == memory.tobytes()
    memory[5] = bits(dtype).type(1)
    assert tensor.numpy().tobytes() == memory.tobytes()


def test_tensorflow_never_writes_what_it_was_lent():
    """Its kernels write inputs in place where nobody else holds them; what was lent is held."""
    memory = aligned(4096)
    memory[:] = 3

    @tf.function
    def double(tensor):
        return tf.nn.relu(tensor * 2) + 1

    for _ in range(3):
        assert float(tf.reduce_sum(double(gpulend.lend(memory, "tensorflow")))) == 7 * 4096
        assert float(tf.reduce_sum(gpulend.lend(memory, "tensorflow") + 1)) == 4 * 4096
    assert set(memory.tolist()) == {3.0}
    readonly = memory.view()
    readonly.flags.writeable = False
    assert gpulend.borrow(gpulend.lend(readonly, "tensorflow")).address == memory.ctypes.data


@pytest.mark.parametrize("shift", [4, 8, 16, 32])
def test_memory_that_is_not_aligned_is_refused(shift):
    """TensorFlow takes it, and ends the process when it computes."""
    memory = aligned(16, shift=shift)
    with pytest.raises(gpulend.ExportError, match=r"multiple of 64; .*copy=True") as caught:
        gpulend.lend(memory, "tensorflow")
    assert caught.value.code == 355
    copy = gpulend.lend(memory, "tensorflow", copy=True)
    assert tf.reduce_sum(copy + 1).numpy() == 16


def test_only_row_major_memory_is_taken():
    """Another order or gaps are refused by name; axes of one element do not count."""
    memory = aligned(64).reshape(8, 8)
    for view in (memory.T, memory[:, ::2], memory[::2]):
        with pytest.raises(gpulend.ExportError, match="row-major") as caught:
            gpulend.lend(view, "tensorflow")
        assert caught.value.code == 356
        assert gpulend.lend(view, "tensorflow", copy=True).shape == view.shape
    with pytest.raises(gpulend.ExportError, match="negative strides"):
        gpulend.lend(memory[::-1], "tensorflow")
    assert gpulend.lend(memory[:1].T, "tensorflow").shape == (8, 1)


def test_memory_without_elements_is_taken():
    """There is nothing to align or to copy."""
    assert gpulend.lend(np.zeros((0, 3), np.float32), "tensorflow").shape == (0, 3)


def test_what_was_lent_outlives_its_producer():
    """The tensor, and what is computed from it, keep the memory as long as they need it."""
    memory = aligned(1000)
    memory[:] = 5
    tensor = gpulend.lend(memory, "tensorflow")
    del memory
    gc.collect()
    noise = [np.full(1064, 7, np.float32) for _ in range(100)]
    assert set(tensor.numpy().tolist()) == {5.0}
    del noise


def test_a_lease_stays_while_tensorflow_holds_it():
    """Law 13: `release` names the borrower."""
    lease = gpulend.borrow(aligned(16))
    tensor = lease.lend("tensorflow")
    with pytest.raises(gpulend.StillLentError, match="tensorflow"):
        lease.release()
    del tensor
    lease.release()


def refused(tensor, code=350):
    """Borrow what is no plain tensor; return what is said."""
    with pytest.raises(gpulend.ExportError) as caught:
        gpulend.borrow(tensor)
    assert caught.value.code == code
    return str(caught.value)


def test_symbolic_tensors_are_refused_by_name():
    """Inside tf.function and in models of Keras there is no memory."""
    said = []

    @tf.function
    def traced(tensor):
        said.append(refused(tensor))
        return tensor

    traced(tf.ones(3))
    assert "SymbolicTensor" in said[0]
    assert "tf.function" in said[0]
    assert "KerasTensor" in refused(tf.keras.Input((3,)))


def test_other_kinds_are_refused_with_what_to_borrow_instead():
    """And what is named works."""
    variable = tf.Variable([1.0, 2.0])
    assert "convert_to_tensor" in refused(variable)
    assert "convert_to_tensor" in refused(tf.keras.Variable(1.0))
    assert "flat_values" in refused(tf.ragged.constant([[1], [2, 3]]))
    assert "to_dense" in refused(tf.sparse.from_dense([[1, 0]]))
    assert "indices" in refused(tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0])))
    assert "stack" in refused(tf.TensorArray(tf.float32, 3))
    gpulend.borrow(tf.convert_to_tensor(variable))
    gpulend.borrow(tf.convert_to_tensor(tf.keras.Variable(1.0)))
    gpulend.borrow(tf.ragged.constant([[1], [2, 3]]).flat_values)


def test_the_value_of_a_variable_stays_as_it_was():
    """A variable that is written while its value is lent gets other memory."""
    variable = tf.Variable(tf.zeros(64))
    lease = gpulend.borrow(tf.convert_to_tensor(variable))
    variable.assign_add(tf.ones(64))
    assert set(lease.lend("numpy").tolist()) == {0.0}
    assert set(variable.numpy().tolist()) == {1.0}


def test_types_that_its_dlpack_lacks_are_refused_with_what_works():
    """Eight-bit floats and quantized numbers: what is named instead works."""
    ml_dtypes = need("ml_dtypes")
    narrow = tf.constant(np.ones(4, ml_dtypes.float8_e4m3fn))
    assert "t.numpy()" in refused(narrow, 305)
    assert gpulend.borrow(narrow.numpy()).dtype == "float8_e4m3fn"
    quantized = tf.cast([1, 2], tf.qint8)
    assert "tf.bitcast(t, tf.int8)" in refused(quantized, 305)
    assert gpulend.borrow(tf.bitcast(quantized, tf.int8)).lend("numpy").tolist() == [1, 2]
    assert "resource" in refused(tf.Variable(1.0).handle, 353)
    with pytest.raises(gpulend.ExportError, match="no element type float8_e5m2"):
        gpulend.lend(np.zeros(64, ml_dtypes.float8_e5m2), "tensorflow")


def test_strings_are_refused_before_they_end_the_process():
    """TensorFlow's own export of them aborts."""
    assert "decode" in refused(tf.constant(["a", "b"]), 353)


@pytest.mark.parametrize("found", [0, 1])
def test_memory_of_a_gpu_is_taken_where_tensorflow_finds_one(monkeypatch, found):
    """A build for CUDA that finds none would fail in its own words, and is refused in ours."""
    name = "gpulend.adapters.tensorflow"
    # The adapter of the other tests comes back after this one.
    usual = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, usual)
    monkeypatch.setattr(name, usual)
    monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: True)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * found)
    del sys.modules[name]
    assert importlib.import_module(name).ADAPTER.consumer.takes.gpu == bool(found)


def test_importing_gpulend_and_lending_to_others_imports_no_tensorflow():
    """TensorFlow takes seconds to import; only who uses it pays."""
    program = """
        import sys, gpulend, numpy
        gpulend.lend(numpy.zeros(3), "numpy")
        print("tensorflow" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


def test_lending_a_tensor_to_torch_warns_once():
    """Torch cannot mark it: who could write a tensor is warned."""
    need("torch")
    from gpulend import adapters

    # A consumer made anew has not warned yet.
    adapters.CONSUMERS.pop("torch", None)
    sys.modules.pop("gpulend.adapters.torch", None)
    tensor = tf.ones(8)
    with pytest.warns(UserWarning, match="read-only"):
        first = gpulend.lend(tensor, "torch")
    second = gpulend.lend(tensor, "torch")
    assert first.data_ptr() == second.data_ptr() == gpulend.borrow(tensor).address
