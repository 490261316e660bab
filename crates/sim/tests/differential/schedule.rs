//! Threads of a block: each runs until it waits, then whoever waits together goes on together.

use gpulend_sim::ptx::ast::{Barrier, Op, Operand, Reduce, Reg, Shuffle, Type, Vote};

use crate::arithmetic::{low, reduce};
use crate::machine::{Mutation, Piece, Plan, Setup, State, Stop, Thread, World, size, stop};

/// How many instructions a launch may execute.
const LIMIT: u64 = 20_000_000;
/// How many instructions a thread executes before the next one where they take turns.
const TURN: u64 = 7;

/// Runs a launch on memory; says how many instructions were executed.
pub(crate) fn run(setup: Setup<'_>, memory: &mut Vec<Piece>) -> Result<u64, Stop> {
    let plan = Plan::new(setup);
    let mut world = World { global: std::mem::take(memory), shared: Vec::new(), arrived: [0; 16] };
    let mut executed = 0;
    let [x, y, z] = plan.setup.grid;
    let blocks = x * y * z;
    let mut result = Ok(());
    for turn in 0..blocks {
        let number = if plan.setup.backwards { blocks - 1 - turn } else { turn };
        let at = [number % x, number / x % y, number / (x * y)];
        result = result.and_then(|()| plan.block(&mut world, at, &mut executed));
    }
    *memory = world.global;
    result.map(|()| executed)
}

impl<'a> Plan<'a> {
    fn block(&self, world: &mut World, block: [u32; 3], executed: &mut u64) -> Result<(), Stop> {
        world.shared = vec![0; size(self.shared_bytes)?];
        world.arrived = [0; 16];
        let [x, y, z] = self.setup.block;
        let mut threads = Vec::new();
        for number in 0..x * y * z {
            let at = [number % x, number / x % y, number / (x * y)];
            let mut thread = Thread {
                at,
                number,
                block,
                frames: Vec::new(),
                local: Vec::new(),
                carry: false,
                state: State::Ready,
            };
            self.enter(&mut thread, self.setup.kernel)?;
            let frame = thread.frame()?;
            let params = &mut frame.param[..self.setup.params.len()];
            params.copy_from_slice(self.setup.params);
            threads.push(thread);
        }
        let turn = if self.setup.backwards { TURN } else { LIMIT };
        loop {
            for index in 0..threads.len() {
                let last = threads.len() - 1;
                let thread = &mut threads[if self.setup.backwards { last - index } else { index }];
                let until = *executed + turn;
                while thread.state == State::Ready && *executed < until {
                    *executed += 1;
                    if *executed > LIMIT {
                        return stop("it does not end");
                    }
                    self.step(world, thread)?;
                }
            }
            if threads.iter().any(|thread| thread.state == State::Ready) {
                continue;
            }
            if threads.iter().all(|thread| thread.state == State::Ended) {
                return Ok(());
            }
            let mut moved = false;
            for warp in threads.chunks_mut(32) {
                moved |= self.warp(warp)?;
            }
            moved = moved || self.barriers(world, &mut threads)?;
            if !moved {
                return stop("threads wait for each other");
            }
        }
    }

    /// What a waiting thread waits at: function, statement, operation.
    fn waits_at(&self, thread: &Thread) -> Result<Option<(usize, usize, &'a Op)>, Stop> {
        let (State::Waiting, Some(frame)) = (thread.state, thread.frames.last()) else {
            return Ok(None);
        };
        let (_, body) = self.function(frame.function)?;
        Ok(Some((frame.function, frame.next, &body.statements[frame.next].op)))
    }

    fn go_on(thread: &mut Thread) -> Result<(), Stop> {
        thread.state = State::Ready;
        thread.frame()?.next += 1;
        Ok(())
    }

    /// Lets lanes of a warp go on that wait for no other lane.
    fn warp(&self, lanes: &mut [Thread]) -> Result<bool, Stop> {
        let mut moved = false;
        for lane in 0..lanes.len() {
            let Some((function, statement, op)) = self.waits_at(&lanes[lane])? else { continue };
            let mut together = Vec::new();
            for (other, thread) in lanes.iter().enumerate() {
                if self.waits_at(thread)?.is_some_and(|(f, s, _)| (f, s) == (function, statement)) {
                    together.push(other);
                }
            }
            let mask = match op {
                Op::WarpSync { mask }
                | Op::Shuffle { mask: Some(mask), .. }
                | Op::Vote { mask: Some(mask), .. }
                | Op::Match { mask, .. }
                | Op::Redux { mask, .. } => self.read(&lanes[lane], *mask, Type::B32)?,
                Op::ActiveMask { .. } | Op::Shuffle { .. } | Op::Vote { .. } => {
                    together.iter().fold(0, |mask, lane| mask | 1 << lane)
                }
                _ => continue,
            };
            if mask >> lane & 1 == 0 {
                return stop("a lane is not in the mask it gives");
            }
            let wanted: Vec<usize> = (0..lanes.len())
                .filter(|lane| mask >> lane & 1 == 1 && lanes[*lane].state != State::Ended)
                .collect();
            if wanted.iter().all(|lane| together.contains(lane)) {
                self.together(lanes, &wanted, mask, op)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// One operation of the lanes of a mask.
    fn together(
        &self,
        lanes: &mut [Thread],
        members: &[usize],
        mask: u64,
        op: &Op,
    ) -> Result<(), Stop> {
        let read = |operand: Operand, ty: Type, lanes: &[Thread]| -> Result<Vec<u64>, Stop> {
            members.iter().map(|lane| self.read(&lanes[*lane], operand, ty)).collect()
        };
        let mut writes: Vec<(usize, Reg, u64)> = Vec::new();
        match op {
            Op::Shuffle { .. } => self.shuffle(lanes, members, op, &mut writes)?,
            Op::Vote { mode, to, value, .. } => {
                let votes: Result<Vec<bool>, Stop> =
                    members.iter().map(|lane| self.truth(&lanes[*lane], *value)).collect();
                let votes = votes?;
                let ballot = members
                    .iter()
                    .zip(&votes)
                    .fold(0, |ballot, (lane, vote)| ballot | u64::from(*vote) << lane);
                let result = match mode {
                    Vote::All => u64::from(!votes.contains(&false)),
                    Vote::Any => u64::from(votes.contains(&true)),
                    Vote::Uniform => u64::from(!(votes.contains(&true) && votes.contains(&false))),
                    Vote::Ballot => ballot,
                };
                writes.extend(members.iter().map(|lane| (*lane, *to, result)));
            }
            Op::Match { all, ty, to, valid, value, .. } => {
                let values = read(*value, *ty, lanes)?;
                for (lane, own) in members.iter().zip(&values) {
                    let same = members.iter().zip(&values).filter(|(_, other)| *other == own);
                    let same = same.fold(0_u64, |found, (lane, _)| found | 1 << lane);
                    let holds = !all || values.iter().all(|other| other == own);
                    writes.push((
                        *lane,
                        *to,
                        if !all {
                            same
                        } else if holds {
                            mask
                        } else {
                            0
                        },
                    ));
                    writes.extend(valid.map(|valid| (*lane, valid, u64::from(holds))));
                }
            }
            Op::Redux { op, ty, to, value, .. } => {
                let result =
                    read(*value, *ty, lanes)?.into_iter().reduce(|a, b| reduce(*op, *ty, a, b));
                writes.extend(members.iter().map(|lane| (*lane, *to, result.unwrap_or(0))));
            }
            Op::ActiveMask { to } => writes.extend(members.iter().map(|lane| (*lane, *to, mask))),
            _ => {}
        }
        for (lane, register, value) in writes {
            self.write(&mut lanes[lane], register, value)?;
        }
        for lane in members {
            Self::go_on(&mut lanes[*lane])?;
        }
        Ok(())
    }

    fn shuffle(
        &self,
        lanes: &[Thread],
        members: &[usize],
        op: &Op,
        writes: &mut Vec<(usize, Reg, u64)>,
    ) -> Result<(), Stop> {
        let Op::Shuffle { mode, to, valid, value, lane: which, clamp, .. } = op else {
            return stop("no shuffle");
        };
        for lane in members {
            let thread = &lanes[*lane];
            let own = i64::try_from(*lane).unwrap_or(0);
            let small =
                |operand| Ok(i64::try_from(self.read(thread, operand, Type::U32)?).unwrap_or(0));
            let (distance, control): (i64, i64) = (small(*which)? & 0x1f, small(*clamp)?);
            let (limit, segment) = (control & 0x1f, control >> 8 & 0x1f);
            let last = (own & segment) | (limit & !segment);
            let (source, holds) = match mode {
                Shuffle::Up => (own - distance, own - distance >= last),
                Shuffle::Down => (own + distance, own + distance <= last),
                Shuffle::Butterfly => (own ^ distance, own ^ distance <= last),
                Shuffle::Index => {
                    let source = (own & segment) | (distance & !segment);
                    (source, source <= last)
                }
            };
            let stays = !holds || self.setup.mutation == Some(Mutation::ShufflesNothing);
            let source = usize::try_from(if stays { own } else { source }).unwrap_or(0);
            if !members.contains(&source) {
                return stop("a shuffle from a lane that takes no part");
            }
            writes.push((*lane, *to, self.read(&lanes[source], *value, Type::B32)?));
            writes.extend(valid.map(|valid| (*lane, valid, u64::from(holds))));
        }
        Ok(())
    }

    /// Lets threads go on for whom enough have come to a barrier.
    fn barriers(&self, world: &mut World, threads: &mut [Thread]) -> Result<bool, Stop> {
        let mut moved = false;
        for barrier in 0..16 {
            let mut here = Vec::new();
            let mut wanted = threads.iter().filter(|thread| thread.state != State::Ended).count();
            let mut arrives = Vec::new();
            for (index, thread) in threads.iter().enumerate() {
                let Some((_, _, Op::Barrier { kind, id, threads: count })) =
                    self.waits_at(thread)?
                else {
                    continue;
                };
                if self.read(thread, *id, Type::U32)? != barrier {
                    continue;
                }
                if let Some(count) = count {
                    wanted = size(self.read(thread, *count, Type::U32)?)?;
                }
                if *kind == Barrier::Arrive {
                    arrives.push(index)
                } else {
                    here.push((index, *kind))
                }
            }
            let arrived = &mut world.arrived[size(barrier)?];
            *arrived += arrives.len();
            moved |= !arrives.is_empty();
            for index in arrives {
                Self::go_on(&mut threads[index])?;
            }
            if here.is_empty() || here.len() + *arrived < wanted {
                continue;
            }
            *arrived = 0;
            self.release(threads, &here)?;
            moved = true;
        }
        Ok(moved)
    }

    fn release(&self, threads: &mut [Thread], here: &[(usize, Barrier)]) -> Result<(), Stop> {
        let mut values = Vec::new();
        for (index, kind) in here {
            if let Barrier::Reduce(_, _, value) = kind {
                values.push(self.truth(&threads[*index], *value)?);
            }
        }
        for (index, kind) in here {
            if let Barrier::Reduce(how, to, _) = kind {
                let result = match how {
                    Reduce::And => u64::from(!values.contains(&false)),
                    Reduce::Or => u64::from(values.contains(&true)),
                    _ => values.iter().filter(|value| **value).count() as u64,
                };
                self.write(&mut threads[*index], *to, low(result, 32))?;
            }
            Self::go_on(&mut threads[*index])?;
        }
        Ok(())
    }
}
