package cli

import (
	"fmt"
	"strings"

	"ciddk/validate"
)

// throughMark separates the layers in the name of a driver behind layers, such as reference-through-user.
const throughMark = "-through-"

// driver returns the driver with a name, behind layers: those in its name, and then those in through, the nearest to
// the driver first.
func (a *app) driver(name string, through []string) (validate.Driver, error) {
	parts := strings.Split(name, throughMark)
	d, err := a.drivers.Get(parts[0])
	if err != nil {
		return d, err
	}
	for _, layer := range append(parts[1:], through...) {
		if d, err = a.over(d, layer); err != nil {
			return d, err
		}
	}
	return d, nil
}

// over returns a driver behind one layer.
func (a *app) over(d validate.Driver, layer string) (validate.Driver, error) {
	for _, l := range a.Layers {
		if l.Name == layer {
			name := d.Name + throughMark + layer
			d = l.Over(d)
			d.Name = name
			return d, nil
		}
	}
	return d, fmt.Errorf("--through: no layer %q; there are: %s", layer, a.layerNames())
}

// layerNames returns the names of all layers, for messages.
func (a *app) layerNames() string {
	var names []string
	for _, l := range a.Layers {
		names = append(names, l.Name)
	}
	if names == nil {
		return "none in this program"
	}
	return strings.Join(names, ", ")
}
