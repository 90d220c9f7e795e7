package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"ciddk/kubernetes/node"
)

// Name is the name of the driver, and of the DeviceClass of the manifests.
const Name = node.Vendor

// The type of the parameters in claims and device classes.
const (
	apiVersion = Name + "/v1"
	kind       = "Adapter"
)

// parameters are the opaque parameters of a device.
type parameters struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	DeviceName string            `json:"deviceName,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`
}

// allowed are the settings of ddkd's software adapters that a user may choose: those that reach nothing but the pod.
var allowed = []string{"address", "gids", "impair", "interface", "link", "loopback"}

// adapters returns the claim for the devices that a ResourceClaim has on this driver, and their results.
func adapters(rc *resourceapi.ResourceClaim, iface string) (c node.Claim,
	results []resourceapi.DeviceRequestAllocationResult, err error) {
	c.ID = string(rc.UID)
	numPod := 0
	for _, r := range rc.Status.Allocation.Devices.Results {
		if r.Driver != Name {
			continue
		}
		p, err := merge(rc.Status.Allocation.Devices.Config, r.Request)
		if err != nil {
			return c, nil, err
		}
		if p.DeviceName != "" {
			c.DeviceName = p.DeviceName
		}
		if p.Settings["link"] != "network" {
			numPod++
		}
		results = append(results, r)
		c.Adapters = append(c.Adapters, settings(p.Settings, iface))
	}
	if numPod > 1 {
		err = fmt.Errorf("%d devices would have the pod's address: give all but one the settings link: network and "+
			"address, or request one", numPod)
	}
	return c, results, err
}

// merge returns the parameters of a request: those of the class, then those of the claim.
func merge(list []resourceapi.DeviceAllocationConfiguration, request string) (all parameters, err error) {
	all.Settings = map[string]string{}
	for _, source := range []resourceapi.AllocationConfigSource{resourceapi.AllocationConfigSourceClass,
		resourceapi.AllocationConfigSourceClaim} {
		for _, c := range list {
			if c.Source != source || c.Opaque == nil || c.Opaque.Driver != Name || !isFor(c.Requests, request) {
				continue
			}
			var p parameters
			if err := strict(c.Opaque.Parameters.Raw, &p); err != nil {
				return all, fmt.Errorf("parameters: %w", err)
			}
			if p.DeviceName != "" {
				all.DeviceName = p.DeviceName
			}
			maps.Copy(all.Settings, p.Settings)
		}
	}
	return all, nil
}

// isFor reports whether a configuration is for a request, or for the request of a subrequest.
func isFor(requests []string, request string) bool {
	main, _, _ := strings.Cut(request, "/")
	return len(requests) == 0 || slices.Contains(requests, request) || slices.Contains(requests, main)
}

// strict parses and validates parameters.
func strict(raw []byte, p *parameters) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return err
	}
	if p.APIVersion != apiVersion || p.Kind != kind {
		return fmt.Errorf("%s, %s: want %s, %s", p.APIVersion, p.Kind, apiVersion, kind)
	}
	for key, value := range p.Settings {
		if !slices.Contains(allowed, key) {
			return fmt.Errorf("no setting %q; there are %s", key, strings.Join(allowed, ", "))
		}
		if value == "" || strings.ContainsAny(value, ",\n\x00") {
			return fmt.Errorf("setting %s: %q: want a value without commas", key, value)
		}
	}
	return nil
}

// settings returns settings as ddkd takes them. Without an address, an adapter has those of the pod's interface.
func settings(s map[string]string, iface string) string {
	s = maps.Clone(s)
	if s["address"] == "" && s["interface"] == "" {
		s["interface"] = iface
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		pairs = append(pairs, key+"="+s[key])
	}
	return strings.Join(pairs, ",")
}
