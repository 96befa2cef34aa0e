#!/usr/bin/env python3
"""A moto server on a free port of this machine, with the bucket `results`."""

import logging
import os
import time

import boto3
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
client = boto3.client(
    "s3",
    endpoint_url=f"http://{host}:{port}",
    aws_access_key_id="test",
    aws_secret_access_key="test",
    region_name="us-east-1",
)
client.create_bucket(Bucket="results")
print(f"ready {port}", flush=True)
# It ends with the test that started it.
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.5)
os._exit(0)
