package telemetry

import "github.com/prometheus/client_golang/prometheus"

// PlaceMetrics are the disks that a node writes to, and its backups.
type PlaceMetrics struct {
	free, size, backup *prometheus.GaugeVec
}

// Places registers the metrics of disks and backups. None is there before it is set.
func (m *Metrics) Places() *PlaceMetrics {
	p := &PlaceMetrics{
		free: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_disk_free_bytes",
			Help: "Free space of the disk that holds the store, the mark file, the security log, the replica or the backups; 0 if it is read-only, NaN if it could not be read.",
		}, []string{"place"}),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_disk_size_bytes",
			Help: "Size of that disk.",
		}, []string{"place"}),
		backup: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_backup_last_timestamp_seconds",
			Help: "What moment the newest backup in backup.folder is of; 0 if there is none, NaN if the folder could not be read.",
		}, nil),
	}
	m.registry.MustRegister(p.free, p.size, p.backup)
	return p
}

// Disk sets the metrics of the disk of a place.
func (p *PlaceMetrics) Disk(place string, free, size float64) {
	p.free.WithLabelValues(place).Set(free)
	p.size.WithLabelValues(place).Set(size)
}

// Backup sets what moment the newest backup is of, in Unix seconds.
func (p *PlaceMetrics) Backup(at float64) { p.backup.WithLabelValues().Set(at) }

// BuildInfo registers what the binary was built from, and the kind of its store.
func (m *Metrics) BuildInfo(version, revision, goVersion, store string) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "coax_build_info",
		Help: "1, with the release, the commit, the version of Go and the kind of store.",
	}, []string{"version", "revision", "goversion", "store"})
	m.registry.MustRegister(info)
	info.WithLabelValues(version, revision, goVersion, store).Set(1)
}
