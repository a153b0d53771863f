# The two main commands: `make run` serves a demo directory, `make test` runs all tests.
.PHONY: run test quick release release-artifacts artifacts check units built browser package conformance clients servers kernel kernel-uml kernel-channels kernel-nfs kernel-nfs-load kernel-nfs-steady kernel-steady \
    btrfs xfs quotas pynfs suites pike wpts foreign authority attacks domain guide discovery wiretap power races hostile bench test-all

# Lanes: tests against other programs. Two run at a time, the longest first, each with its own addresses.
LANES = kernel-uml conformance servers kernel-steady clients foreign pike wpts quotas kernel-channels kernel-nfs kernel-nfs-steady suites btrfs xfs package browser authority attacks power domain wiretap guide discovery artifacts
# Lanes must not share the standard input: smbd ends when its standard input ends.
lane = < /dev/null ANABRANCH_TEST_NET=$$(($${ANABRANCH_TEST_NET:-0} + $(1)))

run: ## Build, serve a demo directory, print how to mount it
	@mkdir -p demo && test -e demo/README.txt || echo "Put files here." > demo/README.txt
	cargo run --quiet --package cli -- serve demo

test: ## Install the programs that the tests need (as root), then run all tests
	conformance/prepare
	conformance/default-state begin
	$(MAKE) --no-print-directory check units
	$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target $(LANES)
	conformance/default-state end

# Seed in hexadecimal by which long lanes choose a part of their tests: it differs from commit to commit.
commit_seed = $$(git rev-parse --short=8 HEAD 2> /dev/null || echo 1)

test-all: built ## The complete lanes of which `make test` runs a part: an hour; see conformance/OUTCOMES.md
	conformance/test-all

quick: ## The inner loop: formatting, lints and tests of the changed crates, cargo xtask tidy
	cargo xtask quick

check: ## Formatting, lints, the build for aarch64, licences, advisories of dependencies, cargo xtask tidy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	conformance/aarch64
	cargo xtask licences
	cargo xtask advisories
	cargo xtask tidy
	cargo xtask coverage --check

units: ## All tests that need no other program
	ANABRANCH_HOSTILE_SEED=$(commit_seed) ANABRANCH_HOSTILE_MESSAGES=1000000 \
	    cargo test --workspace --locked --quiet --no-fail-fast

hostile: ## Two hostile users against one victim over SMB and NFS: 30 million messages, about ten minutes
	ANABRANCH_HOSTILE_SEED=$(commit_seed) ANABRANCH_HOSTILE_MESSAGES=30000000 \
	    cargo test --package fuzz --test hostile --locked --quiet -- --nocapture

built:
	cargo build --locked --quiet --package cli

browser: built ## The dashboard and the bench report in Debian's Chromium
	conformance/browser/install
	$(call lane,12) cargo test --package cli --test tools --locked --quiet bench_report -- --ignored
	$(call lane,12) conformance/dashboard

release: ## The release build with profile-guided optimisation: 15 minutes on 2 cores
	packaging/release

release-artifacts: ## A release in target/artifacts: packages, image, bill of materials for x86-64 and AArch64 (root)
	packaging/release-artifacts

artifacts: built ## What a release consists of, from the built binary: installed, unpacked, run as a container (root)
	conformance/artifacts

package: built ## The Debian package in a fresh root: installed, served, upgraded, purged (root)
	$(call lane,11) packaging/loads $${CARGO_TARGET_DIR:-target}/debug/anabranch 0.3
	$(call lane,11) conformance/package
	$(call lane,11) conformance/newcomer

clients: built ## Foreign clients against the built server
	$(call lane,1) conformance/clients
	$(call lane,1) conformance/shares
	$(call lane,1) conformance/space
	$(call lane,1) conformance/samba
	$(call lane,1) conformance/nfs-tls
	$(call lane,1) conformance/kerberos
	$(call lane,1) conformance/hosts

servers: built ## Our client against Debian's Samba, the newest Samba and NFS-Ganesha (root)
	$(call lane,2) conformance/ganesha-root
	$(call lane,2) conformance/exports
	$(call lane,2) cargo test --package cli --test tools --locked --quiet -- --ignored --skip bench_report --test-threads 1

kernel: kernel-uml kernel-channels kernel-nfs ## The Linux kernel's own client, in a virtual machine

kernel-uml: built
	$(call lane,3) ANABRANCH_GRACE_MS=1000 conformance/kernel uml

kernel-channels: built
	$(call lane,9) conformance/kernel-channels uml

kernel-nfs: built
	$(call lane,10) conformance/kernel-nfs uml
	$(call lane,10) conformance/kernel-nfs-tls uml
	$(call lane,10) conformance/kernel-nfs trixie killed 2 1 16

kernel-nfs-load: built ## Three minutes of mixed load on 16 connections that the lane cuts repeatedly
	$(call lane,10) conformance/kernel-nfs uml load 180 16

kernel-nfs-steady: built ## Debian 12's kernel over NFS under emulation: about 3 minutes on an idle machine
	$(call lane,13) conformance/kernel-nfs bookworm few

kernel-steady: built ## Debian 12's kernel over SMB under emulation: 3 minutes on an idle machine
	$(call lane,4) conformance/kernel bookworm

quotas: built ## User quotas on ext4 and XFS, by smbcquotas (root)
	$(call lane,5) conformance/quotas

conformance: built ## Samba's own test suite against the built server
	$(call lane,6) cargo xtask conformance smb

btrfs: built ## Tests that need shared blocks and compression, on a btrfs image
	$(call lane,7) conformance/btrfs

xfs: built ## Tests that need projects and attributes of 64 KiB, on an XFS image (root)
	$(call lane,22) conformance/xfs

pynfs: built ## pynfs, a test suite for NFSv4.1 servers; fetched if the network permits it (root; minutes)
	$(call lane,8) conformance/pynfs

suites: built ## A part of pjdfstest and other suites through the kernel's NFS client; fetched if possible (root)
	$(call lane,21) conformance/suites few $$(printf %d 0x$(commit_seed)) pjdfstest-rs pjdfstest cthon04

pike: built ## Pike, Isilon's tests of SMB2 and SMB3; fetched (root; two minutes)
	$(call lane,19) conformance/pike

wpts: built ## A part of Microsoft's protocol test suites; fetched if possible (root; two minutes)
	$(call lane,23) conformance/wpts few $$(printf %d 0x$(commit_seed))

foreign: built ## Client libraries in C, Java, Go, Python and JavaScript, fetched (three minutes)
	$(call lane,20) conformance/foreign

authority: built ## Every caller, operation and kind of permission combined, on ext4 (root)
	$(call lane,14) conformance/authority

attacks: built ## Attack scripts, each of which the server must withstand (root)
	$(call lane,15) conformance/attacks

domain: built ## Kerberos tickets of an Active Directory domain: owners, expiry, large and slow ones (root)
	$(call lane,18) conformance/domain

guide: built ## The commands of the administrator's guide, each page in a fresh root (root; seconds)
	conformance/steps
	conformance/guide

discovery: built ## Avahi and wsdd find the server, in network namespaces (root; a minute)
	$(call lane,24) conformance/discovery

wiretap: built ## A part of Samba's test suite, signed and encrypted: searches the traffic for reused nonces
	$(call lane,16) cargo xtask conformance smb --wiretap signed --lanes 2 --share 12 --seed $$(printf %d 0x$(commit_seed))
	$(call lane,16) cargo xtask conformance smb --wiretap sealed --lanes 2 --share 12 --seed $$(printf %d 0x$(commit_seed))

power: built ## A part of the power cuts after acknowledged operations, on ext4, XFS and btrfs (root)
	$(call lane,17) conformance/power few $$(printf %d 0x$(commit_seed))

races: ## The server under ThreadSanitizer while channels are bound and cut (needs rustup: nightly)
	conformance/races

bench: ## Measurements beside Samba and NFS-Ganesha; takes minutes
	cargo build --release --locked --package cli
	cargo xtask bench peers --charts benchmarks
	cargo xtask bench links --charts benchmarks
	cargo xtask bench metadata
	cargo xtask bench metadata --backend-latency-us 1000
	cargo xtask bench copy
	conformance/ganesha-root
	cargo xtask bench nfs --charts benchmarks
