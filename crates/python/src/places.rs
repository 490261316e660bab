//! Fields of foreign objects, found by their values: where a layout is not promised, samples prove it.

use std::ptr;

/// Where in objects a word lies that is known of each of them.
///
/// # Safety
///
/// The objects are at these addresses, alive, and at least eight bytes larger than the places, which are multiples of eight.
pub(crate) unsafe fn find_place(
    places: impl IntoIterator<Item = usize>,
    known: &[(usize, usize)],
) -> Option<usize> {
    let mut places = places.into_iter();
    // SAFETY: the contract.
    let holds =
        |place: &usize, (object, value): &(usize, usize)| unsafe { word(object + place) } == *value;
    places.find(|place| known.iter().all(|known| holds(place, known)))
}

/// A word of memory.
///
/// # Safety
///
/// The address is one of eight bytes of an object that is alive, and a multiple of eight.
#[inline]
pub(crate) unsafe fn word(address: usize) -> usize {
    let place: *const usize = ptr::with_exposed_provenance(address);
    // SAFETY: the contract.
    unsafe { place.read() }
}
