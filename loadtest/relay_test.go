package loadtest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// relay stands between workers and their broker. It hands on what they say to
// each other, and puts itself where the broker names its own address. It can lose
// the end of a transaction.
type relay struct {
	t      testing.TB
	broker string
	addr   string
	own    []byte // the broker's address as it names it
	put    []byte // what stands there instead

	mu   sync.Mutex
	loss loss
	id   string        // the transactional id whose transaction's end is lost
	hit  chan struct{} // closed when it was lost
	over chan struct{} // closed when the worker has given up asking for it

	open    map[net.Conn]bool // connections of the worker
	held    []kmsg.Key        // requests that are held, none for all
	until   chan struct{}     // closed when they are released; nil when none are held
	fencing bool              // the next heartbeat is answered with an error
}

// loss is what is lost of a transaction's end.
type loss int

const (
	nothing  loss = iota
	answers       // the broker ends the transaction, and nobody hears of it
	requests      // the broker never hears of it
)

func newRelay(t testing.TB, broker string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	named := func(addr string) []byte {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		return binary.BigEndian.AppendUint32([]byte(host), uint32(n))
	}
	r := &relay{t: t, broker: broker, addr: l.Addr().String(), own: named(broker), put: named(l.Addr().String()), open: make(map[net.Conn]bool)}
	go func() {
		for {
			worker, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(worker)
		}
	}()
	return r
}

// lose loses the end of the next transaction that is to be committed, however
// often it is asked for, until its worker takes the transactional id over again.
// hit is closed when it was lost, over when the worker has done that.
func (r *relay) lose(what loss) (hit, over <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loss, r.id = what, ""
	r.hit, r.over = make(chan struct{}), make(chan struct{})
	return r.hit, r.over
}

// sever cuts every connection.
func (r *relay) sever() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.Close()
	}
}

// hold keeps requests from the broker, and all that follows them on their
// connections: those with the key given, or all of them. release sends them on.
func (r *relay) hold(keys ...kmsg.Key) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until := make(chan struct{})
	r.held, r.until = keys, until
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.until = nil
		close(until)
	}
}

// pass waits while a request is held.
func (r *relay) pass(key kmsg.Key) {
	r.mu.Lock()
	until := r.until
	held := until != nil && (len(r.held) == 0 || slices.Contains(r.held, key))
	r.mu.Unlock()
	if held {
		<-until
	}
}

// fence has the next heartbeat answered as if the broker had moved on: the member
// gives up what it has, and joins again under its id.
func (r *relay) fence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fencing = true
}

// fenced changes the answer to a heartbeat, when that was asked for.
func (r *relay) fenced(frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Length, correlation id, no tags, throttle time; then the error.
	const code = 4 + 4 + 1 + 4
	if r.fencing && len(frame) > code+2 && binary.BigEndian.Uint16(frame[code:]) == 0 {
		binary.BigEndian.PutUint16(frame[code:], uint16(kerr.FencedMemberEpoch.Code))
		r.fencing = false
	}
}

// serve hands on one connection until either side or a fault ends it.
func (r *relay) serve(worker net.Conn) {
	defer worker.Close()
	r.mu.Lock()
	r.open[worker] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, worker)
	}()
	broker, err := net.Dial("tcp", r.broker)
	if err != nil {
		return
	}
	defer broker.Close()
	asked := make(chan request, 10_000) // answers come in the order of requests
	go func() {
		defer broker.Close()
		defer worker.Close()
		for {
			frame, err := readFrame(broker)
			if err != nil {
				return
			}
			q := <-asked
			if q.lost {
				return
			}
			switch q.key {
			case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster:
				frame = bytes.ReplaceAll(frame, r.own, r.put)
			case kmsg.ConsumerGroupHeartbeat:
				r.fenced(frame)
			}
			if _, err := worker.Write(frame); err != nil {
				return
			}
		}
	}()
	for {
		frame, err := readFrame(worker)
		if err != nil {
			return
		}
		q := request{key: kmsg.Key(int16(binary.BigEndian.Uint16(frame[4:])))}
		forward := true
		switch q.key {
		case kmsg.EndTxn, kmsg.InitProducerID:
			if forward, q.lost, err = r.judge(frame); err != nil {
				r.t.Errorf("the relay reads a request: %v", err)
				return
			}
		}
		if !forward {
			return
		}
		r.pass(q.key)
		asked <- q
		if _, err := broker.Write(frame); err != nil {
			return
		}
	}
}

// request is what of a request is needed when its answer comes.
type request struct {
	key  kmsg.Key
	lost bool // the answer does not reach the worker
}

// judge decides whether a request for the end of a transaction, or for a
// producer id, reaches the broker, and whether its answer is lost.
func (r *relay) judge(frame []byte) (forward, lost bool, err error) {
	key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	b := kbin.Reader{Src: frame[12:]}
	b.NullableString() // client id
	if req.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if err := b.Complete(); err != nil {
		return false, false, err
	}
	if err := req.ReadFrom(b.Src); err != nil {
		return false, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.EndTxnRequest:
		switch {
		case r.loss == nothing || !req.Commit || r.id != "" && r.id != req.TransactionalID:
			return true, false, nil
		case r.id == "":
			r.id = req.TransactionalID
			close(r.hit)
			return r.loss == answers, true, nil
		}
		return false, false, nil
	case *kmsg.InitProducerIDRequest:
		if r.id != "" && req.TransactionalID != nil && *req.TransactionalID == r.id {
			r.loss, r.id = nothing, ""
			close(r.over)
		}
		return true, false, nil
	}
	return false, false, errors.New("it is neither of both")
}

func (l loss) String() string { return [...]string{"nothing", "the answer", "the request"}[l] }

// readFrame reads a request or an answer with its length.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
