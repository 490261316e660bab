//! Linking PTX.

use std::ffi::c_char;

use super::jit::Log;
use super::modules::image_in;
use super::pointer::{In, Out};
use super::{Call, entry};
use crate::status::{Outcome, Status};

entry! {
    /// Begins a link. Its options name the log buffers.
    fn [cuLinkCreate, cuLinkCreate_v2](count: u32, options: In<i32>, values: Out<usize>, link: Out<usize>) |call| {
        let context = call.context()?;
        link.required()?;
        let log = Log::read(count, options, values)?;
        link.put(call.machine()?.create_link(context, log.to_numbers())?)
    }
}

impl Call {
    fn add_to_link(self, link: usize, kind: i32, data: &[u8]) -> Outcome<()> {
        let numbers = self.machine()?.lock().link(&self.caller(), link)?.log.clone();
        let added = self.machine()?.add_to_link(&self.caller(), link, kind, data);
        Log::from_numbers(&numbers).deliver(added)
    }
}

entry! {
    /// Adds PTX from memory to a link. Its options have no effect.
    fn [cuLinkAddData, cuLinkAddData_v2](
        link: usize,
        kind: i32,
        data: In<u8>,
        bytes: usize,
        _name: In<c_char>,
        count: u32,
        options: In<i32>,
        values: Out<usize>,
    ) |call| {
        call.context()?;
        Log::read(count, options, values)?;
        if data.is_null() || bytes == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        call.add_to_link(link, kind, &data.list(bytes)?)
    }
}

entry! {
    /// Adds PTX from a file to a link.
    fn [cuLinkAddFile, cuLinkAddFile_v2](
        link: usize,
        kind: i32,
        path: In<c_char>,
        count: u32,
        options: In<i32>,
        values: Out<usize>,
    ) |call| {
        call.context()?;
        Log::read(count, options, values)?;
        call.add_to_link(link, kind, &image_in(path)?)
    }
}

entry! {
    /// Returns the address of a link's image, valid until the link is destroyed.
    fn cuLinkComplete(link: usize, image: Out<usize>, bytes: Out<usize>) |call| {
        call.context()?;
        image.required()?;
        let numbers = call.machine()?.lock().link(&call.caller(), link)?.log.clone();
        let completed = call.machine()?.complete_link(&call.caller(), link);
        let (place, length) = Log::from_numbers(&numbers).deliver(completed)?;
        bytes.offer(length);
        image.put(place)
    }
}

entry! {
    /// Destroys a link.
    fn cuLinkDestroy(link: usize) |call| { call.machine()?.destroy_link(&call.caller(), link) }
}
