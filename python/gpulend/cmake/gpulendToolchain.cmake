# CUDA of CMake projects by `gpulend build`:
#
#     cmake -B build -DCMAKE_TOOLCHAIN_FILE=$(python -m gpulend.config --toolchain)
#
# CMake identifies compilers of CUDA by what NVIDIA's prints. Here it is told what it would find out: the options are those of
# nvcc, this command links, and the code is for one architecture.
get_filename_component(_gpulend_runtime "${CMAKE_CURRENT_LIST_DIR}/../_runtime" ABSOLUTE)
find_program(GPULEND_NVCC NAMES gpulend-nvcc REQUIRED DOC "the command that pip installs with gpulend")
# CMake reads this file again for each of its trials, which know what is named here.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GPULEND_NVCC)
set(CMAKE_CUDA_COMPILER "${GPULEND_NVCC}")
set(CMAKE_CUDA_COMPILER_ID NVIDIA)
set(CMAKE_CUDA_COMPILER_VERSION 12.0)
set(CMAKE_CUDA_COMPILER_ID_RUN TRUE)
set(CMAKE_CUDA_COMPILER_FORCED TRUE)
set(CMAKE_CUDA_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CUDA_COMPILER_PRODUCED_OUTPUT
    "gpulend\n#$ PATH=\n#$ LIBRARIES= -L${_gpulend_runtime}\n#$ ${GPULEND_NVCC} -L${_gpulend_runtime} -arch compute_75\n")
# A program that the C++ compiler links finds the runtime too, if it uses it.
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT
    "-Wl,--push-state,--as-needed ${_gpulend_runtime}/libgpulend_rt.so -Wl,--pop-state")
list(APPEND CMAKE_BUILD_RPATH "${_gpulend_runtime}")
