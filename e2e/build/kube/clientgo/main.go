// The counterpart of operator/kube's informer, for bench/informer.py: client-go's, with a transform that keeps
// the same fields.
//
//	clientgo follow -count 10000 [-format protobuf]   until count pods are in its store; prints the cost
//	clientgo hear [-server URL] -count 30000 -log FILE [-format protobuf]   until count events came; logs when
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// Keeps the same fields of a pod as bench/informer/pods.cc.
func keep(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP,
			Conditions: pod.Status.Conditions},
	}
	for _, status := range pod.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: status.Name, Ready: status.Ready, RestartCount: status.RestartCount})
	}
	return kept, nil
}

func memory(name string) int {
	for _, line := range strings.Split(string(must(os.ReadFile("/proc/self/status"))), "\n") {
		var kilobytes int
		if strings.HasPrefix(line, name+":") {
			fmt.Sscan(strings.TrimPrefix(line, name+":"), &kilobytes)
			return kilobytes
		}
	}
	return 0
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func clientFor(server, format string) kubernetes.Interface {
	config := &rest.Config{Host: server}
	if server == "" {
		config = must(clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")))
	}
	// By default it is protobuf for the kinds that have it, and JSON for the others.
	if format == "json" {
		config.ContentType = "application/json"
		config.AcceptContentTypes = "application/json"
	}
	return must(kubernetes.NewForConfig(config))
}

func podInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	if err := informer.SetTransform(keep); err != nil {
		log.Fatal(err)
	}
	return informer
}

func follow(client kubernetes.Interface, count int, format string, settle time.Duration) {
	informer := podInformer(client)
	began := time.Now()
	go informer.RunWithContext(context.Background())
	if !cache.WaitForCacheSync(nil, informer.HasSynced) {
		log.Fatal("not synced")
	}
	for len(informer.GetStore().ListKeys()) < count {
		time.Sleep(time.Millisecond)
	}
	synced, cpu := time.Since(began), cpuSeconds()
	time.Sleep(settle)
	resident := memory("VmRSS")
	debug.FreeOSMemory()
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"client": "client-go " + format, "objects": len(informer.GetStore().ListKeys()),
		"sync_seconds": synced.Seconds(), "cpu_seconds": cpu,
		"resident_mib": float64(resident) / 1024, "peak_mib": float64(memory("VmHWM")) / 1024,
		"collected_mib": float64(memory("VmRSS")) / 1024,
	})
}

func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return now.Nano()
}

func hear(client kubernetes.Interface, count int, file, format string) {
	informer := podInformer(client)
	var mu sync.Mutex
	lines := make([]string, 0, count)
	done := make(chan struct{})
	heard := func(object any, what string) {
		at := monotonic()
		pod, ok := object.(*corev1.Pod)
		if !ok {
			log.Fatalf("%T", object)
		}
		if what == "" {
			what = pod.ResourceVersion
		}
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, fmt.Sprintf("%s %s %d\n", pod.Name, what, at))
		if len(lines) == count {
			close(done)
		}
	}
	must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { heard(object, "") },
		UpdateFunc: func(_, object any) { heard(object, "") },
		DeleteFunc: func(object any) { heard(object, "deleted") },
	}))
	go informer.RunWithContext(context.Background())
	if !cache.WaitForCacheSync(nil, informer.HasSynced) {
		log.Fatal("not synced")
	}
	fmt.Fprintln(os.Stderr, "synced")
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
	}
	cpu := cpuSeconds()
	mu.Lock()
	out := must(os.Create(file))
	writer := bufio.NewWriter(out)
	for _, line := range lines {
		writer.WriteString(line)
	}
	writer.Flush()
	out.Close()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"client": "client-go " + format, "cpu_seconds": cpu,
		"resident_mib": float64(memory("VmRSS")) / 1024})
}

func main() {
	flags := flag.NewFlagSet("clientgo", flag.ExitOnError)
	server := flags.String("server", "", "instead of KUBECONFIG's")
	format := flags.String("format", "json", "json or protobuf")
	count := flags.Int("count", 0, "objects or events to wait for")
	settle := flags.Duration("settle", 10*time.Second, "how long after the sync memory is looked at")
	file := flags.String("log", "", "where hear writes to")
	if len(os.Args) < 2 {
		log.Fatal("clientgo follow|hear ...")
	}
	flags.Parse(os.Args[2:])
	client := clientFor(*server, *format)
	switch os.Args[1] {
	case "follow":
		follow(client, *count, *format, *settle)
	case "hear":
		hear(client, *count, *file, *format)
	default:
		log.Fatal("clientgo follow|hear ...")
	}
}
