use super::*;

fn same(value: u32) -> [u32; LANES] {
    [value; LANES]
}

fn named() -> [u32; LANES] {
    std::array::from_fn(|lane| 100 + lane as u32)
}

/// The third operand that CUDA's functions make of their width.
fn clamp_of(mode: Shuffle, width: u32) -> u32 {
    (32 - width) << 8 | if mode == Shuffle::Up { 0 } else { 31 }
}

/// What the programming guide says of `__shfl_sync` and its kin.
fn guide(mode: Shuffle, lane: u32, given: u32, width: u32) -> Option<u32> {
    let (first, place) = (lane / width * width, lane % width);
    match mode {
        Shuffle::Up => place.checked_sub(given).map(|from| first + from),
        Shuffle::Down => (place + given < width).then_some(lane + given),
        Shuffle::Butterfly => (lane ^ given < first + width).then_some(lane ^ given),
        Shuffle::Index => Some(first + given % width),
    }
}

#[test]
fn lanes_read_where_the_programming_guide_says() {
    for mode in [Shuffle::Up, Shuffle::Down, Shuffle::Butterfly, Shuffle::Index] {
        for width in [1, 2, 4, 8, 16, 32] {
            for given in 0..32 {
                let (results, valid) =
                    shuffle(mode, &named(), &same(given), &same(clamp_of(mode, width)), u32::MAX);
                for lane in 0..32 {
                    let wanted = guide(mode, lane, given, width);
                    let context = format!("{mode:?} lane {lane} given {given} width {width}");
                    assert_eq!(results[lane as usize], 100 + wanted.unwrap_or(lane), "{context}");
                    assert_eq!(valid >> lane & 1 == 1, wanted.is_some(), "{context}");
                }
            }
        }
    }
}

#[test]
fn each_lane_has_its_own_operands_and_only_their_low_bits() {
    let mut lanes = same(3);
    lanes[5] = 32 + 7;
    let (results, valid) = shuffle(Shuffle::Index, &named(), &lanes, &same(31), u32::MAX);
    assert_eq!((results[4], results[5]), (103, 107));
    assert_eq!(valid, u32::MAX);
    // A bound inside the segment: lanes beyond it cannot be read.
    let (results, valid) = shuffle(Shuffle::Index, &named(), &same(9), &same(8), u32::MAX);
    assert_eq!((results, valid), (named(), 0));
}

#[test]
fn a_lane_that_takes_no_part_is_not_read() {
    let (results, valid) = shuffle(Shuffle::Down, &named(), &same(1), &same(31), 0b1011);
    assert_eq!(&results[..4], &[101, 101, 102, 103]);
    assert_eq!(valid, 0b1011);
}

#[test]
fn votes_look_at_members_only() {
    let cases = [
        (0b0011, 0b0011, [1, 1, 1, 0b0011]),
        (0b1100, 0b0011, [0, 0, 1, 0]),
        (0b0001, 0b0011, [0, 1, 0, 0b0001]),
        (u32::MAX, u32::MAX, [1, 1, 1, u32::MAX]),
    ];
    for (predicates, members, wanted) in cases {
        let modes = [Vote::All, Vote::Any, Vote::Uniform, Vote::Ballot];
        assert_eq!(modes.map(|mode| vote(mode, predicates, members)), wanted);
    }
}

#[test]
fn equal_values_find_each_other() {
    let mut values = [1 << 40; LANES];
    values[1] = 5;
    values[3] = 5;
    values[4] = 1 << 40 | 1;
    let results = match_any(&values, 0b11111);
    assert_eq!(&results[..6], &[0b00101, 0b01010, 0b00101, 0b01010, 0b10000, 0]);
    assert_eq!(match_all(&values, 0b01010), (0b01010, true));
    assert_eq!(match_all(&values, 0b01011), (0, false));
    assert_eq!(match_all(&values, 1 << 31), (1 << 31, true));
}

#[test]
fn values_are_reduced_over_members() {
    let mut values = same(7);
    values[0] = u32::MAX;
    values[1] = 0b1010;
    values[2] = 3;
    let of = |op, signed| redux(op, signed, &values, 0b111);
    assert_eq!(of(Reduce::Add, false), 12);
    assert_eq!((of(Reduce::Min, false), of(Reduce::Max, false)), (3, u32::MAX));
    assert_eq!((of(Reduce::Min, true), of(Reduce::Max, true)), (u32::MAX, 10));
    assert_eq!(
        (of(Reduce::And, false), of(Reduce::Or, false), of(Reduce::Xor, false)),
        (2, u32::MAX, !9)
    );
    assert_eq!(redux(Reduce::Popc, false, &[0; LANES], 0b11), 0);
    assert_eq!(of(Reduce::Popc, false), 3);
}
