# Targets: gpulend::gpulend, the shared library, and gpulend::static.
get_filename_component(_gpulend_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET gpulend::gpulend)
  add_library(gpulend::gpulend SHARED IMPORTED)
  set_target_properties(gpulend::gpulend PROPERTIES
    IMPORTED_LOCATION "${_gpulend_prefix}/lib/libgpulend.so"
    IMPORTED_SONAME "libgpulend.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_gpulend_prefix}/include")
  add_library(gpulend::static STATIC IMPORTED)
  set_target_properties(gpulend::static PROPERTIES
    IMPORTED_LOCATION "${_gpulend_prefix}/lib/libgpulend.a"
    INTERFACE_LINK_LIBRARIES "gcc_s;util;rt;pthread;m;dl"
    INTERFACE_INCLUDE_DIRECTORIES "${_gpulend_prefix}/include")
endif()

unset(_gpulend_prefix)
