package projectortest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Cable is a network connection that can be cut: what is connected breaks and
// nothing connects until it is mended.
type Cable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// Dial connects through the cable.
func (c *Cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		return nil, errors.New("the cable is cut")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		_ = conn.Close()
		return nil, errors.New("the cable is cut")
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// Cut breaks all connections.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// Mend lets new connections through.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}
