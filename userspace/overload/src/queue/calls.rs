//! Which messages of a call wait in a line: one index for the new lane, one for the copy lane.
//!
//! A chained hash table over the slots of the queue, with one more rule that bounds every chain: a bucket names at
//! most [`GROUPS_PER_BUCKET`] calls. Originals of further calls go into one nameless group of the bucket, and a
//! control message whose call is not among the named ones waits for the nameless group. So the order within a call
//! holds for any keys, and a bucket never takes long to search; the price is that messages of calls which collide may
//! wait for each other. With keys that spread (the queue's keys are keyed hashes with a secret seed) a bucket
//! holds half a call on average and the nameless group is practically never used.

use super::slab::NONE;

/// Calls that a bucket names. At an average load of one half, more than 8 in a bucket come once in 10^9 buckets.
/// Smaller: control messages wait for strangers; larger: a hostile set of keys costs more steps a message.
pub(super) const GROUPS_PER_BUCKET: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Oldest slot of the first named call.
    first: u32,
    /// Named calls. INVARIANT: at most `GROUPS_PER_BUCKET`.
    groups: u32,
    /// The nameless group. INVARIANT: no call is in it and named at the same time, since a call is only named while
    /// it is empty, and joins it only while unnamed.
    rest_first: u32,
    rest_last: u32,
}

/// What the index knows of a slot, beside the slab. Only meaningful while the slot is indexed.
#[derive(Debug, Clone, Copy)]
struct Link {
    key: u64,
    /// The next younger message of the same group.
    next: u32,
    /// For the oldest of a named call: its youngest.
    last: u32,
    /// For the oldest of a named call: the oldest of the bucket's next named call.
    next_group: u32,
}

#[derive(Debug)]
pub(super) struct CallIndex {
    buckets: Box<[Bucket]>,
    /// The bucket is the upper bits of the mixed key.
    shift: u32,
    links: Box<[Link]>,
}

/// Where a call was found: its oldest slot, and the oldest slot of the call before it in the chain.
struct Found {
    first: u32,
    before: u32,
}

impl CallIndex {
    pub(super) const BYTES_PER_SLOT: usize = size_of::<Link>();

    /// For `slots` slots, of which at most `most` are indexed at a time.
    pub(super) fn new(slots: usize, most: usize) -> Self {
        let buckets = (2 * most).next_power_of_two().max(2);
        let empty = Bucket { first: NONE, groups: 0, rest_first: NONE, rest_last: NONE };
        let link = Link { key: 0, next: NONE, last: NONE, next_group: NONE };
        Self {
            buckets: vec![empty; buckets].into_boxed_slice(),
            shift: u64::BITS - buckets.trailing_zeros(),
            links: vec![link; slots].into_boxed_slice(),
        }
    }

    /// The bucket of a key: the golden-ratio product spreads keys that differ in few bits.
    pub(super) fn bucket_of(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// What the other functions will read of a key, for who wants to have it in the cache by then.
    pub(super) fn memory_of(&self, key: u64) -> &[impl Sized + use<>] {
        std::slice::from_ref(&self.buckets[self.bucket_of(key)])
    }

    fn find(&self, bucket: usize, key: u64) -> Option<Found> {
        let (mut before, mut first) = (NONE, self.buckets[bucket].first);
        while first != NONE {
            let link = &self.links[first as usize];
            if link.key == key {
                return Some(Found { first, before });
            }
            (before, first) = (first, link.next_group);
        }
        None
    }

    /// The oldest message of the group that a call is in, if any; [`CallIndex::after`] gives the others. In the nameless
    /// group there may be strangers.
    pub(super) fn first(&self, key: u64) -> Option<u32> {
        let bucket = self.bucket_of(key);
        let first = self.find(bucket, key).map_or(self.buckets[bucket].rest_first, |found| found.first);
        (first != NONE).then_some(first)
    }

    /// Adds the youngest message of a call.
    pub(super) fn append(&mut self, slot: u32, key: u64) {
        let bucket = self.bucket_of(key);
        let found = self.find(bucket, key);
        let Bucket { first, groups, rest_first, rest_last } = self.buckets[bucket];
        self.links[slot as usize] = Link { key, next: NONE, last: slot, next_group: NONE };
        if let Some(Found { first, .. }) = found {
            let last = self.links[first as usize].last;
            self.links[last as usize].next = slot;
            self.links[first as usize].last = slot;
        } else if rest_first == NONE && groups < GROUPS_PER_BUCKET {
            self.links[slot as usize].next_group = first;
            self.buckets[bucket].first = slot;
            self.buckets[bucket].groups += 1;
        } else {
            match rest_last {
                NONE => self.buckets[bucket].rest_first = slot,
                last => self.links[last as usize].next = slot,
            }
            self.buckets[bucket].rest_last = slot;
        }
    }

    /// Removes the messages of a call from the index and gives the oldest; [`CallIndex::after`] gives the others.
    pub(super) fn take(&mut self, key: u64) -> Option<u32> {
        let bucket = self.bucket_of(key);
        if let Some(found) = self.find(bucket, key) {
            let next_group = self.links[found.first as usize].next_group;
            self.replace_group(bucket, found.before, next_group);
            self.buckets[bucket].groups -= 1;
            return Some(found.first);
        }
        let rest = self.buckets[bucket].rest_first;
        (self.buckets[bucket].rest_first, self.buckets[bucket].rest_last) = (NONE, NONE);
        (rest != NONE).then_some(rest)
    }

    /// The next younger message of its group.
    pub(super) fn after(&self, slot: u32) -> Option<u32> {
        let next = self.links[slot as usize].next;
        (next != NONE).then_some(next)
    }

    /// Removes a message that is the oldest of its group, which the oldest of its line always is.
    pub(super) fn remove_oldest(&mut self, slot: u32, key: u64) {
        let bucket = self.bucket_of(key);
        let Link { next, last, next_group, .. } = self.links[slot as usize];
        match self.find(bucket, key) {
            Some(Found { first, before }) => {
                debug_assert_eq!(first, slot, "the oldest of the lane is the oldest of its call");
                if next == NONE {
                    self.replace_group(bucket, before, next_group);
                    self.buckets[bucket].groups -= 1;
                } else {
                    (self.links[next as usize].last, self.links[next as usize].next_group) =
                        (last, next_group);
                    self.replace_group(bucket, before, next);
                }
            }
            None => {
                debug_assert_eq!(
                    self.buckets[bucket].rest_first, slot,
                    "the oldest of the lane is the oldest here"
                );
                self.buckets[bucket].rest_first = next;
                if next == NONE {
                    self.buckets[bucket].rest_last = NONE;
                }
            }
        }
    }

    /// Lets the chain go on at `to` after the call whose oldest slot is `before`, or at the bucket.
    fn replace_group(&mut self, bucket: usize, before: u32, to: u32) {
        match before {
            NONE => self.buckets[bucket].first = to,
            before => self.links[before as usize].next_group = to,
        }
    }

    /// The longest chain and the invariants of all buckets.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        let mut longest = 0;
        for bucket in &self.buckets {
            let chain = std::iter::successors(Some(bucket.first).filter(|&first| first != NONE), |&first| {
                Some(self.links[first as usize].next_group).filter(|&next| next != NONE)
            });
            let count = chain.count();
            assert_eq!(count, bucket.groups as usize);
            assert!(count <= GROUPS_PER_BUCKET as usize);
            assert_eq!(bucket.rest_first == NONE, bucket.rest_last == NONE);
            longest = longest.max(count);
        }
        longest
    }
}
