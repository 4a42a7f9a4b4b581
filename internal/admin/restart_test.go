package admin

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestComesBackWhenServingBreaks(t *testing.T) {
	s, err := New(Config{Addr: "127.0.0.1:0"}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.listener.Close()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		resp, err := client.Get("http://" + s.Addr() + "/livez")
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer after the restart: %v", err)
		}
		<-tick.C
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
