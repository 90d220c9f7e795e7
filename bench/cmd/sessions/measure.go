package main

import (
	"path/filepath"
	"slices"
	"time"

	"ciddk/ci"
)

// times are medians in microseconds.
type times struct {
	Echo, RawEcho float64
	Verbs         []verbTime
}

type verbTime struct {
	Name   string
	Median float64
}

// block is the number of equal calls after which the next kind follows.
const block = 100

// measure executes n verbs of each kind and as many echoes, in blocks that alternate.
func measure(dir string, s *session, n int) (*times, error) {
	echo, err := dialEcho(filepath.Join(dir, echoName))
	if err != nil {
		return nil, err
	}
	defer echo.close()
	raw, err := dialRawEcho(filepath.Join(dir, rawEchoName))
	if err != nil {
		return nil, err
	}
	defer raw.close()
	var pd ci.PD
	var av ci.AV
	attr := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: ci.GID{15: 1}}}
	kinds := []struct {
		name string
		call func() error
	}{
		{"", echo.roundTrip},
		{"", raw.roundTrip},
		{"allocate PD", func() (err error) { pd, err = s.ca.AllocatePD(ci.PDNormal); return err }},
		{"destroy PD", func() error { return pd.Destroy() }},
		{"create AV", func() (err error) { av, err = s.pd.CreateAV(attr); return err }},
		{"query AV", func() error { _, _, err := av.Query(); return err }},
		{"destroy AV", func() error { return av.Destroy() }},
	}
	took := make([][]time.Duration, len(kinds))
	one := func(i int) error {
		start := time.Now()
		err := kinds[i].call()
		took[i] = append(took[i], time.Since(start))
		return err
	}
	for range max(n/block, 1) {
		for _, group := range [][]int{{0}, {1}, {2, 3}, {4, 5, 6}} {
			for range block {
				for _, i := range group {
					if err := one(i); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	t := &times{Echo: median(took[0]), RawEcho: median(took[1])}
	for i := 2; i < len(kinds); i++ {
		t.Verbs = append(t.Verbs, verbTime{kinds[i].name, median(took[i])})
	}
	return t, nil
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / float64(time.Microsecond)
}
