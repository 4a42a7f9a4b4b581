package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// window is a shard's memory of job ids: who published a job, and where it
// stands. It holds an id for some time after the job's last event, and at most
// so many ids. It is written to the log in pages, so that recovery reads pages
// and not history.
//
// There are many entries in every shard, so they lie in one piece, linked by
// number in the order of their last event, and are found by a table of numbers: 40
// bytes an entry with its place in the table, where a map of pointers takes
// three times as much.
type window struct {
	keep time.Duration
	most int

	entries []windowEntry
	table   []uint32 // entry numbers by job hash, with linear probing; 0 is empty
	size    int
	made    uint32 // entries that were ever used, those that are free too
	free    uint32 // the first entry that is free
	oldest  uint32
	newest  uint32
	changes int // entries that are dirty

	topics []events.Publication
	pages  []int64 // evidence offsets of the pages that are valid
	listed int     // entries in those pages, superseded ones too
}

// windowEntry is what is known of a job id.
type windowEntry struct {
	job    uint64 // hash of tenant and job id
	place  uint64 // the publication: offset in 48 bits, index into topics in 16
	lastAt uint32 // seconds
	before uint32 // the next older entry; of a free one, the next free one
	after  uint32 // the next newer entry
	about  uint32 // hash of the job type in 24 bits, dirty in 1, state in 7
}

const (
	typeBits   = 0xffffff
	dirtyBit   = 0x80
	stateBits  = 0x7f
	topicShift = 48
)

func (e *windowEntry) offset() int64       { return int64(e.place & (1<<topicShift - 1)) }
func (e *windowEntry) topic() int          { return int(e.place >> topicShift) }
func (e *windowEntry) typ() uint32         { return e.about >> 8 }
func (e *windowEntry) state() events.State { return events.State(e.about & stateBits) }

// dirty reports whether no page lists the entry as it is.
func (e *windowEntry) dirty() bool { return e.about&dirtyBit != 0 }

// set notes the job's type, place and state.
func (e *windowEntry) set(typ uint32, topic uint16, offset int64, state events.State) {
	e.place = uint64(topic)<<topicShift | uint64(offset)&(1<<topicShift-1)
	e.about = typ&typeBits<<8 | e.about&dirtyBit | uint32(state)&stateBits
}

// pageEntries is how many entries a page holds.
const pageEntries = 10_000

func newWindow(keep time.Duration, most int) *window {
	w := &window{keep: keep, most: most, table: make([]uint32, 64)}
	w.entries = reserve(w, most+1) // one more, for the new one comes before the oldest goes
	return w
}

// at returns entry n; numbers count from 1.
func (w *window) at(n uint32) *windowEntry {
	return &w.entries[n-1]
}

// find returns the number of the job's entry, 0 without one, and its place in
// the table.
func (w *window) find(job uint64) (n uint32, slot int) {
	mask := len(w.table) - 1
	for slot = int(job) & mask; ; slot = (slot + 1) & mask {
		if n = w.table[slot]; n == 0 || w.at(n).job == job {
			return n, slot
		}
	}
}

// add returns a new entry, the newest.
func (w *window) add(job uint64) uint32 {
	if (w.size+1)*5 > len(w.table)*4 {
		w.table = make([]uint32, 2*len(w.table))
		for n := w.oldest; n != 0; n = w.at(n).after {
			_, slot := w.find(w.at(n).job)
			w.table[slot] = n
		}
	}
	n := w.free
	if n != 0 {
		w.free = w.at(n).before
	} else {
		if int(w.made) == len(w.entries) {
			// Pages can list more ids than the window will keep.
			grown := reserve(w, 2*len(w.entries))
			copy(grown, w.entries)
			w.entries = grown
		}
		w.made++
		n = w.made
	}
	*w.at(n) = windowEntry{job: job}
	_, slot := w.find(job)
	w.table[slot] = n
	w.size++
	w.link(n)
	return n
}

// drop forgets an entry.
func (w *window) drop(n uint32) {
	e := w.at(n)
	w.mark(e, false)
	w.unlink(n)
	_, slot := w.find(e.job)
	// What stands behind it in the table moves up, where it would not be found.
	mask := len(w.table) - 1
	for next := slot; ; {
		next = (next + 1) & mask
		m := w.table[next]
		if m == 0 {
			break
		}
		if home := int(w.at(m).job) & mask; (next-home)&mask >= (next-slot)&mask {
			w.table[slot], slot = m, next
		}
	}
	w.table[slot] = 0
	w.size--
	*e = windowEntry{before: w.free}
	w.free = n
}

// link makes an entry the newest.
func (w *window) link(n uint32) {
	e := w.at(n)
	e.before, e.after = w.newest, 0
	if w.newest != 0 {
		w.at(w.newest).after = n
	} else {
		w.oldest = n
	}
	w.newest = n
}

func (w *window) unlink(n uint32) {
	e := w.at(n)
	if e.before != 0 {
		w.at(e.before).after = e.after
	} else {
		w.oldest = e.after
	}
	if e.after != 0 {
		w.at(e.after).before = e.before
	} else {
		w.newest = e.before
	}
}

func (w *window) mark(e *windowEntry, dirty bool) {
	if e.dirty() == dirty {
		return
	}
	if e.about ^= dirtyBit; dirty {
		w.changes++
	} else {
		w.changes--
	}
}

func jobHash(tenant, job string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tenant)
	_, _ = d.Write([]byte{0xff}) // ids are ASCII, so this separates
	_, _ = d.WriteString(job)
	return d.Sum64()
}

func typeHash(typ string) uint32 { return uint32(xxhash.Sum64String(typ)) & typeBits }

func (w *window) topic(p events.Publication) uint16 {
	for i, t := range w.topics {
		if t.TopicID == p.TopicID && t.Topic == p.Topic {
			return uint16(i)
		}
	}
	w.topics = append(w.topics, events.Publication{TopicID: p.TopicID, Topic: p.Topic, Partition: p.Partition})
	return uint16(len(w.topics) - 1)
}

// look returns what is known of a job id.
func (w *window) look(tenant, job string, now events.Time) (windowEntry, bool) {
	n, _ := w.find(jobHash(tenant, job))
	if n == 0 || now.Sub(events.Time(w.at(n).lastAt)*1000) > w.keep {
		return windowEntry{}, false
	}
	return *w.at(n), true
}

// publication returns the place that an entry stands for.
func (w *window) publication(e windowEntry) events.Publication {
	p := w.topics[e.topic()]
	p.Offset = e.offset()
	return p
}

// same reports whether an entry stands for the publication.
func (w *window) same(e windowEntry, p events.Publication) bool {
	return w.topics[e.topic()].TopicID == p.TopicID && e.offset() == p.Offset
}

// touch notes that a job's publication reached a state. State 0 says that it was
// given to us and that nothing is on record of it.
func (w *window) touch(tenant, job, typ string, p events.Publication, state events.State, now events.Time) {
	if w.most == 0 {
		return
	}
	key := jobHash(tenant, job)
	n, _ := w.find(key)
	if n == 0 {
		n = w.add(key)
	} else if w.older(w.at(n), p) {
		return
	}
	e := w.at(n)
	e.set(typeHash(typ), w.topic(p), p.Offset, state)
	if at := uint32(now / 1000); at > e.lastAt {
		e.lastAt = at
		w.unlink(n)
		w.link(n)
	}
	if state != 0 {
		w.mark(e, true)
	}
	w.evict(now)
}

// older reports whether p is not the latest publication of the job, so that an
// event of it must not displace what is known of the latest.
func (w *window) older(e *windowEntry, p events.Publication) bool {
	if w.topics[e.topic()].TopicID == p.TopicID {
		return p.Offset < e.offset()
	}
	return e.state() != 0 && !e.state().Final()
}

// evict forgets ids that are too old or too many.
func (w *window) evict(now events.Time) {
	for w.size > w.most || w.size > 0 && now.Sub(events.Time(w.at(w.oldest).lastAt)*1000) > w.keep {
		w.drop(w.oldest)
	}
}

// changed returns pages with the entries that no page lists as they are. A
// rewrite lists all entries and is due when the pages hold mostly superseded
// ones; then the old pages are void.
func (w *window) changed() (pages []*events.DedupPage, rewrite bool) {
	rewrite = w.listed+w.changes > 2*w.size+pageEntries
	var page *events.DedupPage
	left := w.changes
	if rewrite {
		left = w.size
	}
	for n := w.oldest; n != 0; n = w.at(n).after {
		e := w.at(n)
		// Also one of which nothing is on record, when it took the place of another
		// whose end no page lists.
		if !rewrite && !e.dirty() {
			continue
		}
		if page == nil || len(page.Job) == pageEntries {
			n := min(max(left, 1), pageEntries)
			left -= n
			page = &events.DedupPage{Topics: w.topics, Job: make([]uint64, 0, n), JobType: make([]uint32, 0, n), Topic: make([]uint32, 0, n),
				Offset: make([]int64, 0, n), State: make([]events.State, 0, n), LastAt: make([]uint32, 0, n)}
			pages = append(pages, page)
		}
		page.Job = append(page.Job, e.job)
		page.JobType = append(page.JobType, e.typ())
		page.Topic = append(page.Topic, uint32(e.topic()))
		page.Offset = append(page.Offset, e.offset())
		page.State = append(page.State, e.state())
		page.LastAt = append(page.LastAt, e.lastAt)
	}
	return pages, rewrite
}

// listedNow notes that pages were written at the given offsets.
func (w *window) listedNow(pages []*events.DedupPage, offsets []int64, rewrite bool) {
	if rewrite {
		w.pages, w.listed = nil, 0
	}
	w.pages = append(w.pages, offsets...)
	for _, p := range pages {
		w.listed += len(p.Job)
		for _, key := range p.Job {
			if n, _ := w.find(key); n != 0 {
				w.mark(w.at(n), false)
			}
		}
	}
}

// load takes a page that was read from the log; pages come oldest first, and
// before any event that follows them.
func (w *window) load(page *events.DedupPage, offset int64) {
	w.pages = append(w.pages, offset)
	n := min(len(page.Job), len(page.JobType), len(page.Topic), len(page.Offset), len(page.State), len(page.LastAt))
	w.listed += n
	for i := range n {
		if int(page.Topic[i]) >= len(page.Topics) {
			continue
		}
		key := page.Job[i]
		m, _ := w.find(key)
		if m == 0 {
			m = w.add(key)
		}
		e := w.at(m)
		w.mark(e, false)
		e.set(page.JobType[i], w.topic(page.Topics[page.Topic[i]]), page.Offset[i], page.State[i])
		e.lastAt = page.LastAt[i]
	}
}

// settle puts what was loaded from pages in order.
func (w *window) settle(now events.Time) {
	order := make([]uint32, 0, w.size)
	for n := w.oldest; n != 0; n = w.at(n).after {
		order = append(order, n)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(w.at(a).lastAt, w.at(b).lastAt) })
	w.oldest, w.newest = 0, 0
	for _, n := range order {
		w.link(n)
	}
	w.evict(now)
}
