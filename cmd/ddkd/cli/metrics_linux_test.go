package cli_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference/userlib"
	"ciddk/ual"
)

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, path string) (text string, families map[string]*dto.MetricFamily) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport}).Get("http://ddkd/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err = parser.TextToMetricFamilies(strings.NewReader(string(b)))
	require.NoError(t, err)
	return string(b), families
}

// value returns the value of the sample whose labels contain all of want.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, want ...string) float64 {
	f := families[name]
	require.NotNil(t, f, name)
	var found []*dto.Metric
	for _, m := range f.Metric {
		all := ""
		for _, l := range m.Label {
			all += " " + l.GetName() + "=" + l.GetValue() + " "
		}
		ok := true
		for _, w := range want {
			ok = ok && strings.Contains(all, " "+w+" ")
		}
		if ok {
			found = append(found, m)
		}
	}
	require.Len(t, found, 1, "%s %v", name, want)
	if c := found[0].Counter; c != nil {
		return c.GetValue()
	}
	return found[0].Gauge.GetValue()
}

// TestMetrics uses a daemon, exceeds a limit, and reads the metrics.
func TestMetrics(t *testing.T) {
	path := socket(t)
	at := filepath.Join(filepath.Dir(path), "metrics")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--drain=10ms", "--metrics=unix:" + at, "--quota-qps=2", "--quota-events=7",
			"--adapter", "link=network,address=10.0.0.1"}, io.Discard, io.Discard)
	}()
	c := dial(t)
	x, err := newLoop(c)
	require.NoError(t, err)
	require.NoError(t, x.transfer())
	_, err = x.pd.CreateQP(ci.QPCreate{SendCQ: x.cq, RecvCQ: x.cq})
	require.ErrorIs(t, err, ci.InsufficientResources)
	bypass, err := ual.Dial(ual.Config{Libraries: []*ci.UserLibrary{userlib.New()}})
	require.NoError(t, err)
	guid := newEndpoint(t, bypass, "").guid

	text, m := scrape(t, at)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
	for _, w := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"ddkd_adapters", nil, 1},
		{"ddkd_port_state", []string{"state=Active"}, 1},
		{"ddkd_port_state", []string{"state=Down", "port=1"}, 0},
		{"ddkd_clients", nil, 2},
		{"ddkd_clients_connected_total", nil, 2},
		{"ddkd_objects", []string{"kind=qp"}, 3},
		{"ddkd_quota_used_ratio", []string{"limit=qp"}, 1},
		{"ddkd_quota_refusals_total", []string{"limit=qp"}, 1},
		{"ddkd_quota_refusals_total", []string{"limit=memory_bytes"}, 0},
		{"ddkd_quota_refusals_total", []string{"limit=descriptors_in_flight"}, 0},
		{"ddkd_descriptors_in_flight", nil, 0},
		{"ddkd_messages_total", []string{"command=post_send"}, 1},
		{"ddkd_messages_total", []string{"command=hello"}, 2},
		{"ddkd_messages_rejected_total", nil, 0},
		{"ddkd_work_requests_total", nil, 2},
		{"ddkd_completions_total", nil, 2},
		{"ddkd_events_merged_total", nil, 0},
		{"ddkd_adapter_dropped_packets_total", []string{"adapter=" + guid, "reason=no_qp"}, 0},
		{"ddkd_adapter_doorbells_total", []string{"adapter=" + guid}, 0},
	} {
		assert.Equal(t, w.want, value(t, m, w.name, w.labels...), "%s %v", w.name, w.labels)
	}
	for _, name := range []string{"ddkd_port_sent_packets_total", "ddkd_port_received_bytes_total",
		"ddkd_client_memory_bytes", "ddkd_client_queue_bytes", "ddkd_adapter_queue_bytes", "go_goroutines",
		"process_open_fds"} {
		assert.Positive(t, value(t, m, name), name)
	}

	require.NoError(t, bypass.Close())
	require.NoError(t, c.Close())
	require.NoError(t, x.shared.Close())
	_, m = scrape(t, at)
	assert.Zero(t, value(t, m, "ddkd_client_memory_bytes"))
	assert.EqualValues(t, 2, value(t, m, "ddkd_completions_total"), "totals outlive clients")
	stop()
	require.Zero(t, <-done)
	assert.NoFileExists(t, at)
}
