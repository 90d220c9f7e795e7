package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/bus/vfiouser"
	"ciddk/hca/mlx4/model"
)

// mlx4Bus attaches model i to a bus, and returns its function. stop, which may be nil, is called after the function was
// closed.
type mlx4Bus func(ctx context.Context, m *model.Model, i int) (f bus.Function, stop func() error, err error)

// mlx4Buses are the values of the setting bus.
var mlx4Buses = map[string]mlx4Bus{"": localModel, "local": localModel, "vfio-user": servedModel}

// localModel connects driver and model by calls.
func localModel(_ context.Context, m *model.Model, i int) (bus.Function, func() error, error) {
	return local.New(m, fmt.Sprintf("model %d", i)), nil, nil
}

// servedModel serves the model on a socket of its own, and connects to it as a driver in another process does.
func servedModel(ctx context.Context, m *model.Model, i int) (_ bus.Function, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "ddk-validate")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, fmt.Sprintf("model%d", i))
	l, err := vfiouser.Listen(path)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- vfiouser.Serve(serving, l, m, vfiouser.Config{}) }()
	stop = func() error {
		cancel()
		return errors.Join(<-served, os.RemoveAll(dir))
	}
	f, err := vfiouser.Dial(ctx, path)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return f, stop, nil
}
