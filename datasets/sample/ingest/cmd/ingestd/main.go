// Command ingestd receives readings from gateways.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"larderwatch/ingest/gate"
	"larderwatch/ingest/relay"
	"larderwatch/ingest/server"
	"larderwatch/ingest/settings"
)

func main() {
	cfg, err := settings.Load(os.LookupEnv)
	if err != nil {
		log.Fatal(err)
	}
	forwarder, err := buildForwarder(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go replayLoop(ctx, forwarder, time.Minute)

	front := &server.Server{
		Window:       gate.NewWindow(),
		Throttle:     gate.NewThrottle(cfg.PerMinute, cfg.Burst),
		Sink:         forwarder,
		AcceptLegacy: cfg.AcceptLegacy,
	}
	srv := &http.Server{Addr: cfg.Listen, Handler: front.Routes(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = srv.Shutdown(grace)
	}()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func buildForwarder(cfg settings.Settings) (*relay.Forwarder, error) {
	f := &relay.Forwarder{
		Target:   cfg.Target,
		Client:   &http.Client{Timeout: 10 * time.Second},
		Attempts: cfg.Attempts,
		Pause:    cfg.Pause,
	}
	if cfg.SpoolOutage {
		spool, err := relay.OpenSpool(cfg.SpoolDir, cfg.SpoolLimit)
		if err != nil {
			return nil, err
		}
		f.Overflow = spool
	}
	return f, nil
}

func replayLoop(ctx context.Context, f *relay.Forwarder, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if sent, err := f.Replay(ctx); err != nil {
				log.Printf("replay stopped after %d batches: %v", sent, err)
			}
		}
	}
}
