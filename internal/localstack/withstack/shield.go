package main

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// dialWithin is how long a connection waits for a server that is started again.
const dialWithin = 20 * time.Second

// shield passes connections on to a server, which sees every one of them end in
// order. The embedded ClickHouse aborts when a client resets its connection, as
// one does that is killed, or that gives up a query; the other tests of a run
// would lose their server.
type shield struct {
	listener net.Listener
	server   string
	open     sync.WaitGroup
	ctx      context.Context
	end      context.CancelFunc
}

func newShield(server string) (*shield, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shield{listener: l, server: server}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.open.Go(s.accept)
	return s, nil
}

// addr is what clients connect to.
func (s *shield) addr() string { return s.listener.Addr().String() }

// close ends all connections.
func (s *shield) close() {
	s.end()
	_ = s.listener.Close()
	s.open.Wait()
}

func (s *shield) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.open.Go(func() { s.pass(c) })
	}
}

func (s *shield) pass(client net.Conn) {
	defer client.Close()
	server, err := s.dial()
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(s.ctx, func() { _ = client.Close(); _ = server.Close() })()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = io.Copy(server, client)
		// However the client has ended, the server reads an end of file.
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(client, server); err != nil {
		_, _ = io.Copy(io.Discard, server) // what nobody wants is read nevertheless
	}
	_ = client.Close()
	<-asked
}

func (s *shield) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, dialWithin)
	defer cancel()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", s.server)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
