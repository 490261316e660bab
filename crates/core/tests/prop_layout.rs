//! Layouts against an oracle that visits every element, and against numbers made to overflow.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod oracle;

use gpulend::{ByteSpan, Dtype, Index, Layout, LayoutError, MOST_AXES, View};
use oracle::{config, offsets};
use proptest::prelude::*;
use proptest::sample::select;

fn dtypes() -> impl Strategy<Value = Dtype> {
    let padded = Dtype::all().filter(|dtype| dtype.bits() < 8).map(Dtype::padded);
    select(Dtype::all().chain(padded).collect::<Vec<_>>())
}

/// Small extents with any strides.
fn axes() -> impl Strategy<Value = (Vec<i64>, Vec<i64>)> {
    prop::collection::vec((0_i64..5, -7_i64..8), 0..4).prop_map(|axes| axes.into_iter().unzip())
}

fn layouts() -> impl Strategy<Value = Layout> {
    axes().prop_map(|(shape, strides)| Layout::new(&shape, &strides, Dtype::UINT8).unwrap())
}

/// What slices and transposes make of a compact array: the layouts people have.
fn slices() -> impl Strategy<Value = Layout> {
    let axis = (1_i64..6, 0_i64..3, 1_i64..4, any::<bool>());
    (prop::collection::vec(axis, 0..4), any::<bool>()).prop_map(|(axes, flip)| {
        let shape: Vec<i64> = axes.iter().map(|&(extent, ..)| extent).collect();
        let cuts: Vec<Index> = axes
            .iter()
            .map(|&(_, cut, step, back)| match back {
                true => Index::Slice { start: None, stop: None, step: Some(-step) },
                false => Index::Slice { start: Some(cut), stop: None, step: Some(step) },
            })
            .collect();
        let (layout, _) = Layout::compact(&shape, Dtype::UINT8).unwrap().index(&cuts).unwrap();
        if flip { layout.transposed() } else { layout }
    })
}

fn indices() -> impl Strategy<Value = Vec<Index>> {
    let end =
        || prop_oneof![3 => Just(None), 6 => (-7_i64..7).prop_map(Some), 1 => far().prop_map(Some)];
    let step =
        prop_oneof![3 => Just(None), 6 => (-3_i64..4).prop_map(Some), 1 => far().prop_map(Some)];
    let slice =
        (end(), end(), step).prop_map(|(start, stop, step)| Index::Slice { start, stop, step });
    let index = prop_oneof![
        6 => slice,
        3 => (-3_i64..4).prop_map(Index::At),
        1 => far().prop_map(Index::At),
        1 => Just(Index::Rest),
        1 => Just(Index::New),
    ];
    prop::collection::vec(index, 0..5)
}

/// Numbers at which sums and products overflow.
fn far() -> impl Strategy<Value = i64> {
    let edges = [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, i64::MAX / 2, 1 << 60, 1 << 59];
    let powers = (0_u32..63, any::<bool>(), -1_i64..2).prop_map(|(power, minus, more)| {
        let number = (1_i64 << power) + more;
        if minus { -number } else { number }
    });
    prop_oneof![select(edges.to_vec()), powers, -3_i64..4]
}

/// Whether two elements are the same.
fn repeats(offsets: &[i64]) -> bool {
    let mut sorted = offsets.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// The bytes that elements of so many bits touch.
fn naive_span(offsets: &[i64], bits: i64) -> ByteSpan {
    let low = offsets.iter().map(|at| (at * bits).div_euclid(8)).min().unwrap_or(0);
    let high = offsets.iter().map(|at| ((at + 1) * bits + 7).div_euclid(8)).max().unwrap_or(0);
    ByteSpan { low, high }
}

/// Every bit, in the order in which the elements are read.
fn bits_read(layout: &Layout, dtype: Dtype) -> Vec<i64> {
    let bits = i64::from(dtype.storage_bits());
    let elements = offsets(layout.shape(), layout.strides());
    elements.iter().flat_map(|at| at * bits..(at + 1) * bits).collect()
}

/// What a Python slice takes of an axis, one by one.
fn positions(extent: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
    let length = i128::from(extent);
    let wrap = |end: i64| i128::from(end) + if end < 0 { length } else { 0 };
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let mut at = start.map_or(first, |start| wrap(start).max(low).min(high));
    let stop = stop.map_or(last, |stop| wrap(stop).max(low).min(high));
    let mut taken = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        taken.push(i64::try_from(at).unwrap());
        at += i128::from(step);
    }
    taken
}

/// Shape and elements of an indexed layout, or nothing where it must be refused.
fn naive_index(layout: &Layout, indices: &[Index]) -> Option<(Vec<i64>, Vec<i64>)> {
    let takes = |index: &&Index| matches!(index, Index::At(_) | Index::Slice { .. });
    if indices.iter().filter(|index| **index == Index::Rest).count() > 1 {
        return None;
    }
    let mut rest = layout.rank().checked_sub(indices.iter().filter(takes).count())?;
    let mut axes = layout.shape().iter().zip(layout.strides());
    let mut all = indices.to_vec();
    all.push(Index::Rest);
    let (mut shape, mut found) = (Vec::new(), vec![0]);
    for index in all {
        let whole = Index::Slice { start: None, stop: None, step: None };
        let parts =
            if index == Index::Rest { vec![whole; std::mem::take(&mut rest)] } else { vec![index] };
        for part in parts {
            if part == Index::New {
                shape.push(1);
                continue;
            }
            let (&extent, &stride) = axes.next()?;
            let taken = match part {
                Index::At(at) => {
                    let at = if at < 0 { at.checked_add(extent)? } else { at };
                    vec![(0..extent).find(|index| *index == at)?]
                }
                Index::Slice { step: Some(0), .. } => return None,
                Index::Slice { start, stop, step } => {
                    let taken = positions(extent, start, stop, step.unwrap_or(1));
                    shape.push(i64::try_from(taken.len()).unwrap());
                    taken
                }
                _ => unreachable!(),
            };
            found = found
                .iter()
                .flat_map(|&from| taken.iter().map(move |index| from + index * stride))
                .collect();
        }
    }
    Some((shape, found))
}

/// The strides under which `shape` reads `elements` in order, if there are any.
///
/// Each stride is forced by the first element that lies one further along its axis.
fn naive_strides(shape: &[i64], elements: &[i64]) -> Option<Vec<i64>> {
    let mut strides = vec![0; shape.len()];
    let mut inner = 1_usize;
    for (axis, &extent) in shape.iter().enumerate().rev() {
        if extent > 1 {
            strides[axis] = elements[inner] - elements[0];
        }
        inner *= usize::try_from(extent).unwrap();
    }
    let read = offsets(shape, &strides);
    read.iter().zip(elements).all(|(a, b)| *a == b - elements[0]).then_some(strides)
}

/// A shape of as many elements: cuts off one divisor after the other.
fn refold(size: i64, picks: &[usize]) -> Vec<i64> {
    let mut left = size;
    let mut shape = Vec::new();
    for pick in picks {
        let divisors: Vec<i64> = (1..=left).filter(|divisor| left % divisor == 0).collect();
        let Some(divisor) = divisors.get(pick % divisors.len().max(1)) else { break };
        shape.push(*divisor);
        left /= divisor;
    }
    shape.push(left);
    shape
}

/// Proves by wide sums that a layout keeps its promises.
fn assert_possible(layout: &Layout, dtype: Dtype) {
    assert!(layout.rank() <= MOST_AXES, "{} axes", layout.rank());
    assert_eq!(layout.shape().len(), layout.strides().len());
    assert!(layout.shape().iter().all(|extent| *extent >= 0));
    let bits = i128::from(dtype.storage_bits());
    let (mut low, mut high, mut size) = (0, bits, 1_i128);
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        let reach = (i128::from(extent) - 1) * i128::from(stride) * bits;
        low += reach.min(0);
        high += reach.max(0);
        size *= i128::from(extent);
    }
    let span = layout.byte_span(dtype);
    if layout.is_empty() {
        assert_eq!((span, layout.size()), (ByteSpan { low: 0, high: 0 }, 0));
        return;
    }
    assert_eq!(i128::from(span.low), low.div_euclid(8), "{layout:?}");
    assert_eq!(i128::from(span.high), (high + 7).div_euclid(8), "{layout:?}");
    assert_eq!(i128::from(layout.size()), size);
    assert_eq!(i128::from(layout.nbytes(dtype)), (size * bits + 7) / 8);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sums_are_what_the_elements_touch((shape, strides) in axes(), dtype in dtypes()) {
        let layout = Layout::new(&shape, &strides, dtype).unwrap();
        let elements = offsets(&shape, &strides);
        let bits = i64::from(dtype.storage_bits());
        prop_assert_eq!(layout.byte_span(dtype), naive_span(&elements, bits));
        prop_assert_eq!(layout.size(), i64::try_from(elements.len()).unwrap());
        let bytes = (elements.len() * usize::from(dtype.storage_bits())).div_ceil(8);
        prop_assert_eq!(layout.nbytes(dtype), bytes as u64);
        prop_assert_eq!(layout.is_empty(), elements.is_empty());
    }

    #[test]
    fn compact_is_one_element_after_the_other(layout in prop_oneof![layouts(), slices()]) {
        let straight = |layout: &Layout| {
            offsets(layout.shape(), layout.strides()).iter().zip(0..).all(|(at, count)| *at == count)
        };
        prop_assert_eq!(layout.is_compact(), straight(&layout));
        prop_assert_eq!(layout.is_compact_columns(), straight(&layout.transposed()));
        let compact = Layout::compact(layout.shape(), Dtype::UINT8).unwrap();
        prop_assert!(compact.is_compact() && straight(&compact));
    }

    #[test]
    fn canonical_strides_read_the_same_elements(layout in prop_oneof![layouts(), slices()]) {
        let canonical = layout.canonical();
        prop_assert_eq!(canonical.shape(), layout.shape());
        let [one, other] = [&layout, &canonical].map(|each| offsets(each.shape(), each.strides()));
        prop_assert_eq!(one, other);
        prop_assert_eq!(canonical.canonical(), canonical);
    }

    #[test]
    fn no_overlap_goes_unseen(layout in layouts()) {
        if repeats(&offsets(layout.shape(), layout.strides())) {
            prop_assert!(layout.may_overlap());
        }
        let backwards = layout.shape().iter().zip(layout.strides()).any(|(n, s)| *n > 1 && *s < 0);
        prop_assert_eq!(layout.has_negative_stride(), backwards && !layout.is_empty());
    }

    #[test]
    fn slices_of_a_compact_array_never_seem_to_overlap(layout in slices()) {
        prop_assert!(!repeats(&offsets(layout.shape(), layout.strides())));
        prop_assert!(!layout.may_overlap());
    }

    #[test]
    fn an_index_takes_the_elements_that_python_would(layout in layouts(), indices in indices()) {
        let found = layout.index(&indices);
        match naive_index(&layout, &indices) {
            None => prop_assert!(found.is_err(), "{:?}", found),
            Some((shape, elements)) => {
                let (taken, offset) = found.unwrap();
                assert_possible(&taken, Dtype::UINT8);
                prop_assert_eq!(taken.shape(), shape);
                let read = offsets(taken.shape(), taken.strides());
                prop_assert_eq!(read.iter().map(|at| at + offset).collect::<Vec<_>>(), elements);
            }
        }
    }

    #[test]
    fn a_transpose_reads_columns_as_rows(layout in layouts()) {
        let turned = layout.transposed();
        let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
        shape.reverse();
        strides.reverse();
        prop_assert_eq!((turned.shape(), turned.strides()), (&shape[..], &strides[..]));
        prop_assert_eq!(turned.transposed(), layout);
    }

    #[test]
    fn a_reshape_keeps_the_order_or_there_is_none(
        layout in prop_oneof![layouts(), slices()],
        picks in prop::collection::vec(0_usize..8, 0..4),
        open in prop::option::of(0_usize..4),
        wrong in prop::bool::weighted(0.1),
    ) {
        let elements = offsets(layout.shape(), layout.strides());
        let mut wanted = refold(layout.size(), &picks);
        if wrong {
            wanted.push(2);
        }
        let mut asked = wanted.clone();
        let open = open.filter(|_| !elements.is_empty() && !wrong);
        if let Some(extent) = open.and_then(|axis| asked.get_mut(axis)) {
            *extent = -1;
        }
        match layout.reshaped(&asked, Dtype::UINT8) {
            Ok(folded) => {
                prop_assert_eq!(folded.shape(), &wanted[..]);
                prop_assert_eq!(offsets(folded.shape(), folded.strides()), elements);
            }
            Err(LayoutError::ReshapeSize { .. }) => prop_assert!(wrong && !elements.is_empty()),
            Err(LayoutError::ReshapeCopies { .. }) => {
                prop_assert!(!wrong);
                prop_assert_eq!(naive_strides(&wanted, &elements), None, "{:?} to {:?}", layout, wanted);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn another_type_reads_the_same_bits(
        layout in prop_oneof![layouts(), slices()], from in dtypes(), to in dtypes()
    ) {
        let widest = |dtype: Dtype| i64::from(dtype.storage_bits());
        if let Ok(viewed) = layout.viewed(from, to) {
            prop_assert_eq!(bits_read(&viewed, to), bits_read(&layout, from));
            assert_possible(&viewed, to);
        } else {
            prop_assert_ne!(widest(from), widest(to));
            let whole = layout.size() * widest(from) % widest(to) == 0;
            let flat = layout.rank() == 1 && layout.is_compact();
            prop_assert!(!(flat && whole), "a compact row of whole elements is always a view");
        }
    }

    #[test]
    fn hostile_numbers_give_no_impossible_layout(
        axes in prop::collection::vec((far(), far()), 0..5),
        dtype in dtypes(),
        indices in indices(),
        wanted in prop::collection::vec(far(), 0..4),
        to in dtypes(),
    ) {
        let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let made = [
            Layout::new(&shape, &strides, dtype),
            Layout::compact(&shape, dtype),
            Layout::from_byte_strides(&shape, &strides, dtype),
        ];
        for layout in made.into_iter().flatten() {
            assert_possible(&layout, dtype);
            let _ = (layout.is_compact(), layout.is_compact_columns(), layout.may_overlap());
            let _ = layout.has_negative_stride();
            assert_possible(&layout.transposed(), dtype);
            assert_possible(&layout.canonical(), dtype);
            if let Ok((taken, _)) = layout.index(&indices) {
                assert_possible(&taken, dtype);
            }
            for shape in [&wanted[..], &[-1], &[layout.size(), 1], &[1, -1, 1]] {
                if let Ok(folded) = layout.reshaped(shape, dtype) {
                    assert_possible(&folded, dtype);
                }
            }
            if let Ok(viewed) = layout.viewed(dtype, to) {
                assert_possible(&viewed, to);
            }
        }
    }

    #[test]
    fn a_refusal_has_a_reason(axes in prop::collection::vec((far(), far()), 0..5), dtype in dtypes()) {
        let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let Err(error) = Layout::new(&shape, &strides, dtype) else { return Ok(()) };
        let wide = |numbers: &[i64]| numbers.iter().map(|number| i128::from(*number)).collect::<Vec<_>>();
        let (extents, steps) = (wide(&shape), wide(&strides));
        let bits = i128::from(dtype.storage_bits());
        let most = i128::from(i64::MAX);
        match error {
            LayoutError::NegativeExtent { axis, extent } => {
                prop_assert!(extent < 0 && shape[axis] == extent);
            }
            LayoutError::Overflow { .. } => {
                let size = extents
                    .iter()
                    .filter(|extent| **extent > 0)
                    .try_fold(bits, |size, extent| size.checked_mul(*extent));
                let reach = |sign: i128| {
                    extents.iter().zip(&steps).try_fold(bits + 7, |sum, (extent, step)| {
                        sum.checked_add((extent - 1).checked_mul(*step)?.checked_mul(bits)?.checked_mul(sign)?.max(0))
                    })
                };
                let far = [size, reach(1), reach(-1)].iter().any(|sum| sum.is_none_or(|sum| sum > most));
                prop_assert!(far, "{:?} {:?} {} fits", shape, strides, dtype);
            }
            error => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn an_empty_array_with_far_strides_can_be_indexed() {
    let layout = Layout::new(&[0, 5], &[1, i64::MAX], Dtype::UINT8).unwrap();
    let whole = Index::Slice { start: None, stop: None, step: None };
    let (taken, offset) = layout.index(&[whole, Index::At(4)]).unwrap();
    assert_eq!((taken.shape(), offset), (&[0][..], 0));
}

#[test]
fn new_axes_are_counted_too() {
    let layout = Layout::compact(&[3], Dtype::UINT8).unwrap();
    assert_eq!(layout.index(&[Index::New; MOST_AXES - 1]).unwrap().0.rank(), MOST_AXES);
    let refused = layout.index(&[Index::New; MOST_AXES]);
    assert_eq!(refused, Err(LayoutError::TooManyAxes { rank: 65, most: MOST_AXES }));
}

#[test]
fn a_layout_of_another_type_makes_no_impossible_view() {
    let wide: Dtype = "complex128".parse().unwrap();
    let far = Layout::new(&[2], &[i64::MAX / 16], Dtype::UINT8).unwrap();
    assert!(View::host(0x1000, wide, far.clone(), false).is_err());
    let many = Layout::new(&[i64::MAX / 8], &[0], Dtype::UINT8).unwrap();
    assert!(View::host(0x1000, wide, many.clone(), false).is_err());
    assert!(many.viewed(wide, Dtype::UINT8).is_err());
    let _ = (far.nbytes(wide), many.nbytes(wide), far.byte_span(wide));
}

#[test]
fn the_storage_shape_of_a_huge_broadcast_does_not_overflow() {
    let four: Dtype = "int4".parse().unwrap();
    let layout = Layout::new(&[i64::MAX / 4], &[0], four).unwrap();
    let view = View::host(0x1000, four, layout, false).unwrap();
    assert_eq!(view.storage_shape(), [i64::MAX / 8 + 1]);
}

#[test]
fn a_layout_of_another_type_is_not_viewed_past_the_end() {
    let wide: Dtype = "complex128".parse().unwrap();
    let long = Layout::compact(&[i64::MAX / 16], Dtype::UINT8).unwrap();
    assert!(long.viewed(wide, Dtype::UINT8).is_err());
}
