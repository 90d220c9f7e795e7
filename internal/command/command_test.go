package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/command"
)

type grammar struct {
	Times int `default:"1"`

	Say  sayCmd  `cmd:""`
	Fail failCmd `cmd:""`
	Stop stopCmd `cmd:""`
}

type (
	sayCmd struct {
		Word string `arg:""`
	}
	failCmd struct{}
	stopCmd struct{}
)

func (c *sayCmd) Run(out *bytes.Buffer, times int) error {
	for range times {
		fmt.Fprintln(out, c.Word)
	}
	return nil
}

func (*failCmd) Run() error { return errors.New("out of order") }

func (*stopCmd) Run() error { return fmt.Errorf("waiting: %w", context.Canceled) }

func TestRun(t *testing.T) {
	for _, x := range []struct {
		args      []string
		status    int
		out, errs string
	}{
		{[]string{"say", "hello", "--times", "2"}, 0, "hello\nhello\n", ""},
		{[]string{"fail"}, command.ExitError, "", "talk: out of order\n"},
		{[]string{"stop"}, command.ExitError, "", ""},
		{[]string{"sing"}, command.ExitUsage, "", "talk: unexpected argument sing\n"},
	} {
		var out, errs bytes.Buffer
		var g grammar
		p := command.Program{Name: "talk", Description: "Talks.", Grammar: &g, Out: &out, Errs: &errs}
		p.Bindings = func() []any { return []any{&out, g.Times} }
		assert.Equal(t, x.status, p.Run(x.args), "%v", x.args)
		assert.Equal(t, x.out, out.String(), "%v", x.args)
		assert.Equal(t, x.errs, errs.String(), "%v", x.args)
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	p := command.Program{Name: "talk", Description: "Talks.", Grammar: new(grammar), Out: &out, Errs: &out,
		Bindings: func() []any { return nil }}
	assert.Zero(t, p.Run([]string{"--help"}))
	assert.Contains(t, out.String(), "Talks.")
	out.Reset()
	assert.Zero(t, p.Run([]string{"--version"}))
	assert.Regexp(t, `^talk .*, go[0-9.]+ `, out.String())
}

// TestAwait ends the context while a function waits, which cannot be interrupted.
func TestAwait(t *testing.T) {
	v, err := command.Await(t.Context(), func() (int, error) { return 3, nil })
	assert.NoError(t, err)
	assert.Equal(t, 3, v)
	ctx, cancel := context.WithCancel(t.Context())
	wait := make(chan struct{})
	defer close(wait)
	_, err = command.Await(ctx, func() (int, error) {
		cancel()
		<-wait
		return 0, nil
	})
	assert.ErrorIs(t, err, context.Canceled)
}
