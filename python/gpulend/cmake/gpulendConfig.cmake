# For C and C++ code inside Python: `find_package(gpulend CONFIG)` with
# -Dgpulend_DIR=$(python -m gpulend.config --cmakedir). The target gpulend::gpulend is the functions of this Python's gpulend.
get_filename_component(_gpulend_folder "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
file(GLOB _gpulend_native "${_gpulend_folder}/_native*.so")
list(LENGTH _gpulend_native _gpulend_count)

if(NOT _gpulend_count EQUAL 1)
  set(gpulend_FOUND FALSE)
  set(gpulend_NOT_FOUND_MESSAGE "${_gpulend_folder} has ${_gpulend_count} files _native*.so, and one was expected")
elseif(NOT TARGET gpulend::gpulend)
  get_filename_component(_gpulend_name "${_gpulend_native}" NAME)
  add_library(gpulend::gpulend INTERFACE IMPORTED)
  # An extension module has no soname and no `lib` in its name, so it is linked by its file name.
  set_target_properties(gpulend::gpulend PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_gpulend_folder}/include"
    INTERFACE_LINK_LIBRARIES "-L${_gpulend_folder};-l:${_gpulend_name};-Wl,-rpath,${_gpulend_folder}")
endif()

unset(_gpulend_folder)
unset(_gpulend_native)
unset(_gpulend_count)
unset(_gpulend_name)
