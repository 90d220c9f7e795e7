package model_test

import (
	"fmt"

	"ciddk/bus/local"
	"ciddk/hca/mlx4/model"
	"ciddk/link/direct"
)

// A model on an InfiniBand link, attached to a driver in the same process.
func Example() {
	port, err := direct.New(direct.NewLink(), direct.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: port}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	f := local.New(m, "model 0")
	fmt.Println(f.ID(), f.NumVectors())
	if err := f.Close(); err != nil {
		fmt.Println(err)
	}
	if err := m.Close(); err != nil {
		fmt.Println(err)
	}
	// Output: 15b3:1003 64
}
