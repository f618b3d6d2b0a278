package sim

import (
	"context"
	"sync"

	"pistore"
)

// clock stands still until it is moved; sleeping moves it.
type clock struct {
	mu  sync.Mutex // guards now
	now pistore.UnixMS
}

func (c *clock) read() pistore.UnixMS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) sleep(ctx context.Context, until pistore.UnixMS) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, until)
	return ctx.Err()
}

func (c *clock) jump(ms pistore.UnixMS) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += ms
}
