"""Settings of containers for the lane `artifacts`.

  container.py prepare BUNDLE [--mount FROM:TO[:ro]]... [--compose FILE | --kubernetes FILE]
      Changes the configuration that umoci made of the image: no terminal, no root file system to
      write, no capability, the network of the caller, and the environment of compose.yaml or the
      StatefulSet, whose ConfigMap becomes a file.
  container.py health LAYOUT      prints the words of the image's health check, one a line
  container.py probe FILE         prints those of the StatefulSet's readiness probe
  container.py ports FILE         prints the names of the container's ports in order, one a line; fails
                                  if the Service or the NetworkPolicy has other ports
"""

import argparse
import json
import os

import yaml

# Mounts that the container gets in place of the volumes that umoci proposes.
ANONYMOUS = ("/srv/data", "/var/lib/anabranch")


def manifests(path):
    with open(path) as file:
        return {document["kind"]: document for document in yaml.safe_load_all(file)}


def pod_of(path):
    return manifests(path)["StatefulSet"]["spec"]["template"]["spec"]


def bind(source, target, *options):
    return {"type": "bind", "source": source, "destination": target, "options": ["rbind", *options]}


def by_compose(config, path):
    with open(path) as file:
        service = yaml.safe_load(file)["services"]["anabranch"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    config["process"]["env"] += [f"{name}={value}" for name, value in service["environment"].items()]


def by_kubernetes(config, path, bundle):
    pod = pod_of(path)
    container, security = pod["containers"][0], pod["securityContext"]
    assert container["securityContext"]["readOnlyRootFilesystem"] and security["runAsNonRoot"]
    process = config["process"]
    process["user"] = {"uid": security["runAsUser"], "gid": security["runAsGroup"], "additionalGids": [security["fsGroup"]]}
    process["args"] = process["args"][:1] + container["args"]
    # The Secret's user name is not in the file.
    process["env"] += [f"{entry['name']}={entry.get('value', 'alice')}" for entry in container["env"]]
    folder = os.path.join(bundle, "config-map")
    os.makedirs(folder)
    for name, text in manifests(path)["ConfigMap"]["data"].items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    config["mounts"].append(bind(folder, "/etc/anabranch", "ro"))


def prepare(arguments):
    path = os.path.join(arguments.bundle, "config.json")
    with open(path) as file:
        config = json.load(file)
    process = config["process"]
    process["terminal"] = False
    process["noNewPrivileges"] = True
    process["capabilities"] = {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")}
    config["root"]["readonly"] = True
    config["linux"]["namespaces"] = [one for one in config["linux"]["namespaces"] if one["type"] != "network"]
    config["linux"].pop("resources", None)
    # Mounts of sysfs and cgroups fail without a network namespace of the container's own.
    config["mounts"] = [one for one in config["mounts"] if one["type"] not in ("cgroup", "sysfs") and one["destination"] not in ANONYMOUS]
    for mount in arguments.mount:
        source, target, *options = mount.split(":")
        config["mounts"].append(bind(source, target, *options))
    if arguments.compose:
        by_compose(config, arguments.compose)
    if arguments.kubernetes:
        by_kubernetes(config, arguments.kubernetes, arguments.bundle)
    with open(path, "w") as file:
        json.dump(config, file)


def health(arguments):
    def blob(descriptor):
        with open(os.path.join(arguments.layout, "blobs", *descriptor["digest"].split(":"))) as file:
            return json.load(file)

    with open(os.path.join(arguments.layout, "index.json")) as file:
        index = json.load(file)
    kind, *words = blob(blob(index["manifests"][0])["config"])["config"]["Healthcheck"]["Test"]
    assert kind == "CMD", kind
    print("\n".join(words))


def probe(arguments):
    print("\n".join(pod_of(arguments.file)["containers"][0]["readinessProbe"]["exec"]["command"]))


def ports(arguments):
    documents = manifests(arguments.file)
    own = sorted(port["name"] for port in pod_of(arguments.file)["containers"][0]["ports"])
    service = sorted(port["targetPort"] for port in documents["Service"]["spec"]["ports"])
    policy = sorted(port["port"] for rule in documents["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"])
    assert own == service == policy, (own, service, policy)
    print("\n".join(own))


parser = argparse.ArgumentParser()
actions = parser.add_subparsers(required=True)
action = actions.add_parser("prepare")
action.add_argument("bundle")
action.add_argument("--mount", action="append", default=[])
action.add_argument("--compose")
action.add_argument("--kubernetes")
action.set_defaults(run=prepare)
action = actions.add_parser("health")
action.add_argument("layout")
action.set_defaults(run=health)
action = actions.add_parser("probe")
action.add_argument("file")
action.set_defaults(run=probe)
action = actions.add_parser("ports")
action.add_argument("file")
action.set_defaults(run=ports)
arguments = parser.parse_args()
arguments.run(arguments)
