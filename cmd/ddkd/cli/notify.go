package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// notify sends a state to the service manager, if one started the daemon ($NOTIFY_SOCKET).
func notify(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("cannot notify systemd", "state", state, "error", err)
	}
}

// watchdog sends keep-alives to the service manager in half the interval that it requires (WatchdogSec), until stop is
// called. Each one follows a call of healthy: a daemon that hangs sends none, and is started again.
func watchdog(log *slog.Logger, healthy func()) (stop func()) {
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("cannot read $WATCHDOG_USEC", "error", err)
	}
	if every <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		t := time.NewTicker(every / 2)
		defer t.Stop()
		for {
			healthy()
			notify(log, systemd.SdNotifyWatchdog)
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wait.Wait() }
}
