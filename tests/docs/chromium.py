# SPDX-License-Identifier: GPL-2.0-or-later
"""Chromium for the tests of this directory."""
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

LIMIT = 120


def browser(directory):
    """Chromium without a window."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--allow-file-access-from-files",
                 # The browser before may not have let go of its folder yet.
                 "--user-data-dir=" + tempfile.mkdtemp(dir=directory)):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_page_load_timeout(LIMIT)
    return driver
