package worker

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// window is a shard's memory of job ids: who published a job, and where it
// stands. It holds an id for some time after the job's last event, and at most
// so many ids. It is written to the log in pages, so that recovery reads pages
// and not history.
type window struct {
	keep time.Duration
	most int

	ids    map[uint64]*windowEntry
	order  []uint64 // ids by the time they were last touched, lazily: see evict
	topics []events.Publication
	pages  []int64 // evidence offsets of the pages that are valid
	listed int     // entries in those pages, superseded ones too
	dirty  map[uint64]struct{}
}

// windowEntry is what is known of a job id.
type windowEntry struct {
	typ    uint32 // hash of the job type
	topic  uint16 // index into topics
	state  events.State
	offset int64
	lastAt uint32 // seconds
	orders uint32 // how often the id stands in order
}

// pageEntries is how many entries a page holds.
const pageEntries = 10_000

func newWindow(keep time.Duration, most int) *window {
	return &window{keep: keep, most: most, ids: make(map[uint64]*windowEntry), dirty: make(map[uint64]struct{})}
}

func jobHash(tenant, job string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tenant)
	_, _ = d.Write([]byte{0xff}) // ids are ASCII, so this separates
	_, _ = d.WriteString(job)
	return d.Sum64()
}

func typeHash(typ string) uint32 { return uint32(xxhash.Sum64String(typ)) }

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
	e := w.ids[jobHash(tenant, job)]
	if e == nil || now.Sub(events.Time(e.lastAt)*1000) > w.keep {
		return windowEntry{}, false
	}
	return *e, true
}

// publication returns the place that an entry stands for.
func (w *window) publication(e windowEntry) events.Publication {
	p := w.topics[e.topic]
	p.Offset = e.offset
	return p
}

// same reports whether an entry stands for the publication.
func (w *window) same(e windowEntry, p events.Publication) bool {
	return w.topics[e.topic].TopicID == p.TopicID && e.offset == p.Offset
}

// touch notes that a job's publication reached a state. State 0 says that it was
// given to us and that nothing is on record of it.
func (w *window) touch(tenant, job, typ string, p events.Publication, state events.State, now events.Time) {
	if w.most == 0 {
		return
	}
	key := jobHash(tenant, job)
	e := w.ids[key]
	if e == nil {
		e = new(windowEntry)
		w.ids[key] = e
	} else if w.older(e, p) {
		return
	}
	e.typ, e.topic, e.state, e.offset = typeHash(typ), w.topic(p), state, p.Offset
	if at := uint32(now / 1000); at > e.lastAt || e.orders == 0 {
		e.lastAt = max(at, e.lastAt)
		e.orders++
		w.order = append(w.order, key)
	}
	if state != 0 {
		w.dirty[key] = struct{}{}
	}
	w.evict(now)
}

// older reports whether p is not the latest publication of the job, so that an
// event of it must not displace what is known of the latest.
func (w *window) older(e *windowEntry, p events.Publication) bool {
	if w.topics[e.topic].TopicID == p.TopicID {
		return p.Offset < e.offset
	}
	return e.state != 0 && !e.state.Final()
}

// evict forgets ids that are too old or too many.
func (w *window) evict(now events.Time) {
	drop := 0
	for drop < len(w.order) {
		key := w.order[drop]
		e := w.ids[key]
		if e != nil && e.orders > 1 {
			e.orders-- // touched again later: it stands further back, too
			drop++
			continue
		}
		if e != nil && len(w.ids) <= w.most && now.Sub(events.Time(e.lastAt)*1000) <= w.keep {
			break
		}
		delete(w.ids, key)
		delete(w.dirty, key)
		drop++
	}
	if drop > 0 {
		w.order = w.order[drop:]
	}
}

// changed returns pages with the entries that no page lists as they are. A
// rewrite lists all entries and is due when the pages hold mostly superseded
// ones; then the old pages are void.
func (w *window) changed() (pages []*events.DedupPage, rewrite bool) {
	keys := w.dirty
	if rewrite = w.listed+len(w.dirty) > 2*len(w.ids)+pageEntries; rewrite {
		keys = make(map[uint64]struct{}, len(w.ids))
		for k := range w.ids {
			keys[k] = struct{}{}
		}
	}
	var page *events.DedupPage
	for key := range keys {
		e := w.ids[key]
		if e == nil || e.state == 0 {
			continue
		}
		if page == nil || len(page.Job) == pageEntries {
			page = &events.DedupPage{Topics: w.topics}
			pages = append(pages, page)
		}
		page.Job = append(page.Job, key)
		page.JobType = append(page.JobType, e.typ)
		page.Topic = append(page.Topic, uint32(e.topic))
		page.Offset = append(page.Offset, e.offset)
		page.State = append(page.State, e.state)
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
			delete(w.dirty, key)
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
		e := w.ids[key]
		if e == nil {
			e = new(windowEntry)
			w.ids[key] = e
		}
		*e = windowEntry{typ: page.JobType[i], topic: w.topic(page.Topics[page.Topic[i]]), state: page.State[i], offset: page.Offset[i],
			lastAt: page.LastAt[i], orders: e.orders + 1}
		w.order = append(w.order, key)
	}
}

// settle puts what was loaded from pages in order.
func (w *window) settle(now events.Time) {
	slices.SortStableFunc(w.order, func(a, b uint64) int { return int(int64(w.ids[a].lastAt) - int64(w.ids[b].lastAt)) })
	w.evict(now)
}
