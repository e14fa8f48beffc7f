"""Makes the posts of this example up: python examples/languages/make_posts.py"""

import json
import random
from pathlib import Path

HERE = Path(__file__).parent
OPENINGS = {
    "de": [
        "Das Paket kam gestern an",
        "Ich habe den Mantel bestellt",
        "Die Lieferung war sehr spät",
        "Meine Tochter liebt das Rad",
    ],
    "en": [
        "The parcel arrived yesterday",
        "I ordered the winter coat",
        "Delivery took far too long",
        "My daughter loves the bike",
    ],
    "es": [
        "El paquete llegó ayer",
        "He pedido el abrigo",
        "La entrega tardó demasiado",
        "A mi hija le encanta la bicicleta",
    ],
    "fr": [
        "Le colis est arrivé hier",
        "J'ai commandé le manteau",
        "La livraison a pris trop de temps",
        "Ma fille adore le vélo",
    ],
    "it": [
        "Il pacco è arrivato ieri",
        "Ho ordinato il cappotto",
        "La consegna è stata lenta",
        "Mia figlia adora la bicicletta",
    ],
    "nl": [
        "Het pakket kwam gisteren aan",
        "Ik heb de jas besteld",
        "De levering duurde veel te lang",
        "Mijn dochter houdt van de fiets",
    ],
    "pt": [
        "A encomenda chegou ontem",
        "Encomendei o casaco de inverno",
        "A entrega demorou demais",
        "A minha filha adora a bicicleta",
    ],
}
ENDINGS = {
    "de": [
        "aber es ist kaputt, ich will mein Geld zurück",
        "und alles ist in Ordnung",
        "wann kommt der Rest?",
        "einfach wunderbar",
    ],
    "en": [
        "but it is broken and I want a refund",
        "and everything is fine",
        "when will the rest come?",
        "simply wonderful",
    ],
    "es": [
        "pero está roto y quiero un reembolso",
        "y todo está bien",
        "¿cuándo llega el resto?",
        "simplemente maravilloso",
    ],
    "fr": [
        "mais il est cassé, je veux être remboursé",
        "et tout va bien",
        "quand arrive le reste ?",
        "tout simplement merveilleux",
    ],
    "it": [
        "ma è rotto e voglio un rimborso",
        "e va tutto bene",
        "quando arriva il resto?",
        "semplicemente meraviglioso",
    ],
    "nl": [
        "maar het is stuk en ik wil mijn geld terug",
        "en alles is in orde",
        "wanneer komt de rest?",
        "gewoon geweldig",
    ],
    "pt": [
        "mas está partida e quero um reembolso",
        "e está tudo bem",
        "quando chega o resto?",
        "simplesmente maravilhoso",
    ],
}
STARS = {0: (1, 2), 1: (3, 5), 2: (2, 4), 3: (4, 5)}  # by ending
SHORT = ["ok", "super!!", "top", "👍", "5 stars", "https://example.com/p/17", "mmm", "wow"]


def made(n: int, seed: int = 7) -> list[dict[str, object]]:
    """So many posts, the same for a seed."""
    draw = random.Random(seed)
    posts: list[dict[str, object]] = []
    for number in range(n):
        if draw.random() < 0.1:
            text, stars = draw.choice(SHORT), draw.randint(1, 5)
        else:
            language = draw.choice(list(OPENINGS))
            ending = draw.randrange(4)
            text = (
                f"{draw.choice(OPENINGS[language])}, {ENDINGS[language][ending]} ({draw.randint(100, 999)})"
            )
            stars = draw.randint(*STARS[ending])
        posts.append({"id": number, "shop": f"shop-{draw.randint(1, 9)}", "stars": stars, "text": text})
    return posts


if __name__ == "__main__":
    lines = [json.dumps(post, ensure_ascii=False) for post in made(600)]
    (HERE / "posts" / "day-1.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
