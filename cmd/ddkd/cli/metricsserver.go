package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsHandler serves the metrics of a daemon, of its process and of the Go runtime.
func metricsHandler(d *daemon) (http.Handler, error) {
	r := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{&metrics{d}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4}), nil
}

// serveMetrics serves the metrics at /metrics where the configuration says, if it does, until stop is called.
func serveMetrics(c *config, d *daemon, log *slog.Logger) (stop func(), err error) {
	network, address, err := c.metricsAddress()
	if err != nil || network == "" {
		return func() {}, err
	}
	handler, err := metricsHandler(d)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if err := removeUnserved("unix", address, "--metrics"); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w (choose another place with --metrics)", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	const timeout = 10 * time.Second
	s := &http.Server{Handler: mux, ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", "error", err)
		}
	}()
	log.Info("metrics", "address", l.Addr().String())
	return func() {
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(late) != nil {
			_ = s.Close() // requests that last too long
		}
		<-done
	}, nil
}
