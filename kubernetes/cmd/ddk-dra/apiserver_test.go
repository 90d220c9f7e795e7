package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const nodeName = "node-1"

// An apiServer serves what a driver uses of the Kubernetes API, from the objects of a fake clientset.
type apiServer struct {
	*fake.Clientset
	t *testing.T
}

// newAPIServer returns an API server, and the path of a configuration of its clients.
func newAPIServer(t *testing.T) (a *apiServer, kubeconfig string) {
	a = &apiServer{fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "1"}}), t}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		o, err := a.CoreV1().Nodes().Get(r.Context(), r.PathValue("name"), metav1.GetOptions{})
		answer(w, corev1.SchemeGroupVersion.WithKind("Node"), o, err)
	})
	const api = "/apis/resource.k8s.io/v1/"
	mux.HandleFunc("GET "+api+"namespaces/{ns}/resourceclaims/{name}", func(w http.ResponseWriter, r *http.Request) {
		o, err := a.ResourceV1().ResourceClaims(r.PathValue("ns")).Get(r.Context(), r.PathValue("name"),
			metav1.GetOptions{})
		answer(w, resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), o, err)
	})
	slices, slice := a.ResourceV1().ResourceSlices(), resourceapi.SchemeGroupVersion.WithKind("ResourceSlice")
	mux.HandleFunc("GET "+api+"resourceslices", a.list)
	mux.HandleFunc("POST "+api+"resourceslices", func(w http.ResponseWriter, r *http.Request) {
		o := decode(t, r)
		o.Name = o.GenerateName + "1"
		o, err := slices.Create(r.Context(), o, metav1.CreateOptions{})
		answer(w, slice, o, err)
	})
	mux.HandleFunc("PUT "+api+"resourceslices/{name}", func(w http.ResponseWriter, r *http.Request) {
		o, err := slices.Update(r.Context(), decode(t, r), metav1.UpdateOptions{})
		answer(w, slice, o, err)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	c := clientcmdapi.NewConfig()
	c.Clusters["a"] = &clientcmdapi.Cluster{Server: s.URL}
	c.Contexts["a"] = &clientcmdapi.Context{Cluster: "a"}
	c.CurrentContext = "a"
	kubeconfig = t.TempDir() + "/config"
	require.NoError(t, clientcmd.WriteToFile(*c, kubeconfig))
	return a, kubeconfig
}

// list lists and watches ResourceSlices.
func (a *apiServer) list(w http.ResponseWriter, r *http.Request) {
	q, slices := r.URL.Query(), a.ResourceV1().ResourceSlices()
	switch {
	case q.Get("sendInitialEvents") != "":
		answer(w, schema.GroupVersionKind{}, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	case q.Get("watch") == "":
		o, err := slices.List(r.Context(), metav1.ListOptions{})
		if o != nil {
			o.ResourceVersion = "1"
		}
		answer(w, resourceapi.SchemeGroupVersion.WithKind("ResourceSliceList"), o, err)
	default:
		events, err := slices.Watch(r.Context(), metav1.ListOptions{})
		if !assert.NoError(a.t, err) {
			return
		}
		defer events.Stop()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		for {
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			select {
			case <-r.Context().Done():
				return
			case e, ok := <-events.ResultChan():
				if !ok {
					return
				}
				e.Object.GetObjectKind().SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"))
				// The client may be gone.
				_ = json.NewEncoder(w).Encode(map[string]any{"type": e.Type, "object": e.Object})
			}
		}
	}
}

// decode returns the object of a request.
func decode(t *testing.T, r *http.Request) *resourceapi.ResourceSlice {
	b, err := io.ReadAll(r.Body)
	assert.NoError(t, err)
	o := new(resourceapi.ResourceSlice)
	_, _, err = scheme.Codecs.UniversalDeserializer().Decode(b, nil, o)
	assert.NoError(t, err)
	return o
}

// answer writes an object or an error.
func answer(w http.ResponseWriter, kind schema.GroupVersionKind, o runtime.Object, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status := apierrors.ReasonForError(err)
		code := http.StatusUnprocessableEntity
		if apierrors.IsNotFound(err) {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: status, Code: int32(code), Message: err.Error()})
		return
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	_ = json.NewEncoder(w).Encode(o)
}

// newClaim creates a ResourceClaim with devices allocated, as the scheduler does.
func (a *apiServer) newClaim(name string, parameters ...string) *resourceapi.ResourceClaim {
	rc := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		UID: uidOf(name)}, Status: resourceapi.ResourceClaimStatus{Allocation: new(resourceapi.AllocationResult)}}
	for i, p := range parameters {
		request := "r" + string(rune('0'+i))
		d := &rc.Status.Allocation.Devices
		d.Results = append(d.Results, resourceapi.DeviceRequestAllocationResult{Request: request, Driver: "rdma.ciddk",
			Pool: nodeName, Device: "adapter-" + string(rune('0'+i))})
		if p != "" {
			text := `{"apiVersion": "rdma.ciddk/v1", "kind": "Adapter", ` + strings.TrimPrefix(p, "{")
			d.Config = append(d.Config, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{request},
				DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
					Driver: "rdma.ciddk", Parameters: runtime.RawExtension{Raw: []byte(text)}}}})
		}
	}
	rc, err := a.ResourceV1().ResourceClaims("default").Create(a.t.Context(), rc, metav1.CreateOptions{})
	require.NoError(a.t, err)
	return rc
}
